"""The application's side of the operator: the driver's report, written as an annotation of its own pod."""
