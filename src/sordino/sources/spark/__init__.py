"""Frames of Spark: what their plan shows, and the SQL that Spark is asked in its own session."""
