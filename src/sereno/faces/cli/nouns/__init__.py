"""The nouns: one module each, which exports `app`."""
