"""Losses of records: how a plan finds them, and what accepts them. Pure."""
