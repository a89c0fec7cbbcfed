"""Planted bugs that the simulated world has to find: a proof that finds none of them proves nothing."""
