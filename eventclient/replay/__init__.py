"""Posting recorded runs through the client and comparing what was stored.

May import: client, recordings, model, errors, clock.
"""
