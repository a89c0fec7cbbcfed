"""The database's instant where it is the host's clock, and what happens to open waits when that clock steps."""
