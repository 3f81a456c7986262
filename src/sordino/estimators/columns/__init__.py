"""What is read from a column of numbers: counts of grid buckets, totals of steps, and records of a list."""
