"""What `operations` is made of: what callers say, submits, and what people change."""
