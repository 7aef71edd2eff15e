"""The command-line tools, one module per command."""
