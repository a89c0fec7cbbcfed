"""Crashes at every point: small named scenarios, each run once as it is, and once more for every crash point that it passed."""
