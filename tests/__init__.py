"""Unit and integration tests, and what they share with the demo (`tests.support`)."""
