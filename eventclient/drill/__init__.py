"""Keys under fire: real writes over real connections, with faults, and a count of what came of them.

May import: client, devserver, model, wire, errors, clock.
"""
