"""What is asked of a table: counts, numbers, records, domains, predicates, and how far a unit moves them."""
