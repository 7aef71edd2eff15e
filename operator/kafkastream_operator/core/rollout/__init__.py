"""The roll-out of a revision to the application: by a confirmed restart, or live. Pure."""
