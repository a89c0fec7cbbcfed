"""The inner parts of looking back at waits: decided again, checked, measured. Nothing else in the core knows them."""
