"""Writing: contracts as text, for programs that make them."""
