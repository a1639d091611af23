"""The IO shell: transport, the one retry loop, `EventClient`, `EventWriter`, the environment.

May import: batching, policy, wire, model, telemetry, errors, clock.
"""
