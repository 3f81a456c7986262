"""The SQL of each engine.

How it reads, counts and adds up numbers, and what it calls texts and hashes.
"""
