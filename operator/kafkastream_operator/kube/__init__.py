"""The Kubernetes API: its calls, the cache of watched objects, and the lease."""
