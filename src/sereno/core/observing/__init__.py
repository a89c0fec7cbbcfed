"""The inner parts of `observation`: what comes back, how a status answer is read, how the answer to a call is read."""
