"""Thin kopf handlers: they fetch, call and apply."""
