"""Audits of whole-number noise.

It is played through the mechanism's own decision, or its law is stated.
"""
