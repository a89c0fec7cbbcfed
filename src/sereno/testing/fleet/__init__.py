"""The fleet proof (W29, I7): thousands of operations that wait at one provider, and what the provider's own book says of them.

`python -m sereno.testing.fleet --operations 10000` prints one line of JSON at the end; exit code 0 = nothing was violated.
"""
