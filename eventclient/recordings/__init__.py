"""Recorded logs on disk: their layouts, and the order and form in which they can be posted again.

May import: model, wire, errors.
"""
