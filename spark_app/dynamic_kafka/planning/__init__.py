"""Pure planning: offset documents, reconciliation, admission, ranges, amendments. No I/O, no clock."""
