"""What mechanisms with a noisy threshold share: thresholds, branches, budget splits, streams, runs of zeros."""
