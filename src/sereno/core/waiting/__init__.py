"""The inner parts of `operation`: its life as a table, budgets, the next look, questions and choices."""
