"""Private t-tests."""
