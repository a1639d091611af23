"""Bytes to values and back: CBOR, frames, requests, responses, everything the protocol fixes.

May import: model, errors. Does no IO.
"""
