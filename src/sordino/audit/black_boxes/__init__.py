"""Mechanisms that are only run: what two boxes left behind, and which event tells them apart."""
