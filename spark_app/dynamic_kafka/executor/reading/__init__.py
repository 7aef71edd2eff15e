"""Reading one range: consumers and their cache, rows, bounds, and whether cluster and topic are the planned ones."""
