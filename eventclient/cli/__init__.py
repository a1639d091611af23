"""The command line: one file per verb. Here everything is put together.

May import: everything. Nothing imports it but `eventclient.__main__`.
"""
