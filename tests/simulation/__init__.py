"""A deterministic simulation: client, server and network in one process, on a clock that jumps.

A seed decides everything: which of the callbacks that could run does, how long each request and each answer
travels, what is lost, cut, doubled or answered by somebody else, when the database fails, when a server dies
or a claim holder oversleeps, which callers give up, and what they wrote. The client is the real `EventClient`
over a simulated `Transport`; the server is the real `DevServer`, its routes, connections and parser included,
over its own store in memory. No thread, no socket, no real time: the same seed is the same history.

    python -m tests.simulation --seeds 100000 --processes 2     many seeds, the first failure ends it
    python -m tests.simulation --seed 4711 --trace              one seed, step by step
    python -m pytest tests/simulation                           what every change must pass; the environment
                                                                variable SIMULATION_SEEDS sets how many seeds

Rooms: `loop` (time and scheduling), `plan` (what a seed chooses), `database`, `site` (servers) and `network`,
`workload` (callers), `submission` (what they were told), `verdict` (what must hold), `running` (one seed).
"""
