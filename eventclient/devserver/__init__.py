"""The reference server: applies events to runs, steps, waits and hooks, and serves the log over HTTP.

`app.DevServer` is the way in. `engine` holds the semantics and lists what was chosen where the
protocol leaves a question open; `store` declares the `Store` protocol; `stores` keep the state.
May import: wire, model, telemetry, errors, clock. Never policy, never client: a reference that shares
the client's opinions cannot contradict it.
"""
