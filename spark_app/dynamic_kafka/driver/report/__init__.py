"""The reports of a driver to the operator: the facts of its queries, the progress of drains, and its own pod."""
