"""What is asked of a table: counts, numbers and records, domains and predicates, and how far one unit moves the answers."""
