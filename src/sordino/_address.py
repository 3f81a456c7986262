"""Addresses of servers: what of them may be shown and kept."""

from __future__ import annotations

import re

from sordino.errors import InvalidParameter

# A colon outside of brackets begins a port, and an at sign ends a password: anywhere else they may be parts of one.
_HOSTS = r"(?:\[[^\]@/?#]*\]|:\d*(?=[,/?#]|$)|[^@/?#:\[\]])*"
_PARTS = re.compile(rf"([A-Za-z][A-Za-z0-9+.-]*://)(?:[^@/?#]*@)?({_HOSTS}(?:/[^@?#]*)?)(?:[?][^@#]*)?(#[^@]*)?")


def without_password(address: str) -> str:
    """Return an address without its user, password and options: what may be shown and kept.

    Raises
    ------
    InvalidParameter
        If it is not clear where the password ends.
    """
    found = _PARTS.fullmatch(address)
    if found is None:
        raise InvalidParameter(
            "An address must be written SCHEME://USER@HOST/DATABASE with special characters percent-encoded; got something else, "
            "which is not shown because it may hold a password."
        )
    scheme, place, table = found.groups(default="")
    return f"{scheme}{place}{table}"
