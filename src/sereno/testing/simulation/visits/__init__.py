"""What a run of worlds visited, and what it has to."""
