"""What mechanisms with a noisy threshold share: thresholds, branches, splits, streams, and runs of zeros."""
