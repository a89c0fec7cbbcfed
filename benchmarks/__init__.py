"""What `make bench` runs; README.md says how it measures."""
