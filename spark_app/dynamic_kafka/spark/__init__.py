"""The classes and functions that Spark calls."""
