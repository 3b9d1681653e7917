"""Tools for tests: noise that can be repeated, and that protects nobody."""
