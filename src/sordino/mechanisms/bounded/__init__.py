"""What mechanisms with a declared range share: a grid, rounding at random, and noise that stays within it."""
