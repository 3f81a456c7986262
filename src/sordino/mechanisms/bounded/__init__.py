"""What mechanisms with a declared range share.

A grid, rounding at random, and noise that stays within it.
"""
