"""Quantiles, sums and means without a range [durfee2023]: table 1, figures 1 and 3, and the rank errors of inner quantiles."""
