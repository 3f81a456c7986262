"""Audits of whole-number noise: it is played through the mechanism's own decision, or its law is stated."""
