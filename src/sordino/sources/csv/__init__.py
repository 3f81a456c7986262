"""Text files line by line.

Which lines there are, which fields they have, and which of these are public.
"""
