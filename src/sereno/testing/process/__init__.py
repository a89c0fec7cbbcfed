"""Proofs on real processes: `sereno up` and steered workers that are stopped, starved of disk, locked out and lied to about the time.

The other side (`world.World`) runs in the process of the test and keeps its own books; a checker reads those, and the database only to
compare. Nothing here measures speed: whatever is waited for is a condition with a deadline.
"""
