"""Logs, metrics and the live table of a running application."""
