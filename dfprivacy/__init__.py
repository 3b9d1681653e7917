"""A private view on any dataframe."""
