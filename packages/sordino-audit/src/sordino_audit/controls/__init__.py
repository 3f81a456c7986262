"""Mechanisms with a known verdict, on which the auditor itself is audited."""
