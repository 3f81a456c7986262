"""Mechanisms for labels that nobody listed: a label that only one unit has is told with probability delta."""
