"""Every decision of the operator: documents, roll-outs, drains, conditions. Values in, values out. Pure."""
