"""Reports: a page in HTML that shows what was released, to people who never heard of an epsilon.

It is handed releases, or the JSON that was printed of them, and knows neither data nor databases.
Decision: docs/decisions/0030-reports-and-pictures.md.
"""

from __future__ import annotations

from sordino.report.page import make_report

__all__ = ["make_report"]
