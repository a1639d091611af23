"""The HTTP routes of the reference server, one file per family; `table` of each lists what it serves.

`route` says what a route is. The families read requests with `requests` and answer with `responses`;
what they do, they do through the engine or the store.
May import: what the server may.
"""
