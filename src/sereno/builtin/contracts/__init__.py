"""Contracts that ship with Sereno: data only, one TOML document each, read by `builtin/providers/catalogue.py`."""
