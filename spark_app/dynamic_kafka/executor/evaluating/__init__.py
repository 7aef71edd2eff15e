"""The decisions of a user's classes about records: where a split ends, a value, what becomes of a refused record."""
