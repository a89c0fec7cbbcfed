"""Contracts that ship with Sereno, one TOML document each, and the paths that contracts use; read by `builtin/providers/catalogue.py`."""
