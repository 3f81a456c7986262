"""Mechanisms for labels that nobody listed.

A label that only one unit has is told with probability delta.
"""
