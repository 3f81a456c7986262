"""What is asked of a table: counts, numbers, records, domains, predicates; and how far one unit moves the answers."""
