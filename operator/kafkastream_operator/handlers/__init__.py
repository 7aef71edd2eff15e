"""The operator's side effects: kopf events in, the work queue, calls of the core, and its writes."""
