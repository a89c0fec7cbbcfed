"""SAY WHEN: once, loop and wait. They claim, start, extend and drain; all work is done by the engine."""
