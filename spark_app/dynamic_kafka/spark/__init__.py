"""The data source as Spark calls it: its readers, and the end of a bounded query."""
