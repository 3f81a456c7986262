"""Where accounts are kept: what a store must do, a SQLite file, and a PostgreSQL server."""
