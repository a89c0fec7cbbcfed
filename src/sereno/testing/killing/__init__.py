"""The kill -9 proof: real workers on one database file are killed at random moments and at named points, then the books are compared.

`python -m sereno.testing.killing --cycles 200 --folder DIR` prints one line of JSON at the end; exit code 0 = nothing was violated and
enough happened to prove something.
"""
