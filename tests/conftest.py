"""Hypothesis runs the same examples in CI every time; a new example is found on a developer's machine."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

settings.register_profile("ci", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("dev", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("dev" if os.environ.get("SORDINO_EXPLORE") else "ci")
