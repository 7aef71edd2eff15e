"""Metadata services: the interface, the built-in file service, and the check of what a user's own service returns."""
