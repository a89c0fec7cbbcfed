"""The inner parts of `poll`: verdicts, and the messages of what matched."""
