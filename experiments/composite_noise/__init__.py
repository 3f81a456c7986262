"""Noise that is bounded and has no bias [zhang2024]: tables II and III, figures 7 to 12, and what is possible."""
