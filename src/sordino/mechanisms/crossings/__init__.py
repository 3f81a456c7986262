"""What mechanisms with a noisy threshold share: thresholds, branches, how a budget is split, streams, and runs of zeros."""
