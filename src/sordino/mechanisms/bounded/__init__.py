"""What mechanisms with a declared range share: a grid over it, rounding at random, and noise that stays within it."""
