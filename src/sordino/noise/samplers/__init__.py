"""Exact samplers: coins, counts of coins, first successes, uniform numbers and powers of them."""
