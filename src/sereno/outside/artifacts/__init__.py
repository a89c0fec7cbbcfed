"""Own storage of results, content-addressed by SHA-256 (W30)."""
