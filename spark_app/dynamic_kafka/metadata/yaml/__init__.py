"""Readers of YAML and JSON whose values remember their lines. Driver, tools and operator."""
