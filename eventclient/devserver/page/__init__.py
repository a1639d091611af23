"""The page that shows runs as they go: one HTML file, what it may do, and the data it asks for.

`document` hands out the file, `timeline` reads what it shows from the store and the journal.
May import: what the server may.
"""
