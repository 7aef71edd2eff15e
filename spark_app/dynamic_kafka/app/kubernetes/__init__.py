"""The driver report: how the application reports to the operator, as an annotation of the driver's own pod."""
