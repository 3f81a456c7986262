"""Text files line by line: which lines there are, which fields they have, and which of these are public."""
