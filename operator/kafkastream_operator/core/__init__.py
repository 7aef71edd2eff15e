"""What to render, when to roll it out, and when something is drained: values in, values out. Pure."""
