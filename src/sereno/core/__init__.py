"""DECIDES. Pure values and functions: no I/O, no clock, no dice, no logging; standard library only."""
