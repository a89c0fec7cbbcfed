"""The inner parts of `contract` and `observation`: terms, faults, sections, addresses, answers."""
