"""The hostile provider (I1–I17, G13): many operations at a provider that answers everything it can, true or not.

`python -m sereno.testing.hostile --operations 1000` prints one line of JSON at the end; exit code 0 = nothing was violated.
"""
