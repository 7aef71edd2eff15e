"""Logs, metrics, lag, drains and the live table of a running application."""
