"""All rows of a run in DuckDB, and the tables written from it."""
