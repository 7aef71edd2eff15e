"""The state beside a checkpoint: its files and folders, and Spark's own logs. Driver, executors and tools use it."""
