"""The conformance suite: a scripted hostile provider, and waiters of this and other projects that wait on it."""
