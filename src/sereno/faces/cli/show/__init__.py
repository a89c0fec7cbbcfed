"""How records look: as lines for people and as plain data for programs. Nothing here reads or writes anything else."""
