"""When and what to send together, pure: how events are cut into requests.

May import: model, errors. Needs no clock; `now` is an argument.
"""
