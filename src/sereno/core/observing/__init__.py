"""The inner parts of `observation`: what comes back, and how the answer to a status request is read."""
