"""Sereno: the night watchman of AI assistants."""
