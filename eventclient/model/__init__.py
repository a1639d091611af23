"""Values and facts: events, entities, outcomes, the life cycle of entities.

May import: telemetry, errors. Knows no bytes, no clock, no network.
"""
