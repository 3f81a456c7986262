"""Mechanisms whose noise follows a smooth bound of the local sensitivity, and what they share."""
