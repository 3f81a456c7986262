"""The SQL of each engine: how it reads, counts and adds up numbers, and what it calls texts and hashes."""
