"""Decisions, as pure functions over values: what a failure is, whether to send again, how long to wait.

May import: model, errors. Reads no clock; `now` and jitter are arguments.
"""
