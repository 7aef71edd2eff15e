"""The Kubernetes API: calls of it, the newest form of what is watched, and the lease."""
