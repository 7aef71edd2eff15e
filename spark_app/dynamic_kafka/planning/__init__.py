"""Pure planning: offset documents, reconciling, admission, ranges, amendments. No I/O, no clock."""
