"""Whether a cluster or a topic is still the one that the offsets belong to: ids, renames, deletions. Pure."""
