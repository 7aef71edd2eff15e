"""Logs, metrics, lag, and the live table of a running application."""
