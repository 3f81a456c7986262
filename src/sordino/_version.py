"""The version of the library, for what stands below the package itself."""

from __future__ import annotations

__version__ = "0.1.0"
