"""Benchmarks: each job runs ours and another on the same input, states its shape, and checks that both released what they claim."""
