"""What mechanisms with a noisy threshold share.

That is thresholds, branches, splits, streams, and runs of zeros.
"""
