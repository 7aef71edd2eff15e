"""The end-to-end tests: the product in pods, from its charts and images, on a node of its own (`make e2e`)."""
