"""OFFERS: one class a subject, one method a use case. Every face speaks to this floor alone."""
