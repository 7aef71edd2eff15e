"""Metadata services: the interface, the built-in services, and the check of a user's own. Driver."""
