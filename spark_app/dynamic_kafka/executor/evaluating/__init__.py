"""What a user's classes decide about each record: where a split ends, its value, and what becomes of a refused one."""
