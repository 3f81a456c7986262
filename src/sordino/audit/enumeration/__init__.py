"""Noise in whole numbers: every draw that matters is played through the mechanism's own decision, or its law is stated."""
