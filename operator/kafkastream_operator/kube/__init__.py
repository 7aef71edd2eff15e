"""The Kubernetes API: applying, patching, events, leases."""
