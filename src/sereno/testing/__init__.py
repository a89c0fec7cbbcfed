"""Fake world, contract suites and simulation; for our tests and for plug-in authors."""
