"""Frozen records of what happened: the ledger of a write.

Imports nothing of the package.
"""
