"""Audits of mechanisms that are only run: which event tells the outcomes of two boxes apart."""
