"""The offset document: the progress of a query, its saved form, and what a batch left out or ended. Pure."""
