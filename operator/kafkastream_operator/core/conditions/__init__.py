"""The conditions and Events of a subscription. Pure."""
