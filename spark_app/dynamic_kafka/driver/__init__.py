"""The driver's side of a query: metadata, clusters, plans, replays, and the state beside the checkpoint."""
