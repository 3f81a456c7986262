"""What a release or an account promises, in the fields of the public registry of deployments.

A statement is made of public parameters and of what was released, and of nothing else. This room
knows no data, no noise and no database: `Ledger.publish` hands it what the ledger has, and keeps
the whole statement in the history of the account. Decision:
docs/decisions/0028-a-statement-is-in-the-history.md.
"""

from __future__ import annotations

from sordino.statements.document import PublicStatement, StatementCheck
from sordino.statements.owner import Owner

__all__ = ["Owner", "PublicStatement", "StatementCheck"]
