"""The simulation: one seed is one world with its processes, clocks, database faults and a hostile outside; books decide what held.

The real core, engine, store (SQLite) and drivers run on a virtual loop; everything around them is simulated and keeps its own books.
"""
