"""The one kind of error that speaks to the user instead of to the programmer."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class UserError(ValueError):
    """Something the user can mend: says what was wrong, where, and what to type instead.

    The command line prints the message alone, without a traceback, and exits with code 2.
    """


def near_matches(name: str, known: Iterable[str]) -> str:
    """Return ' Did you mean ...?' for the known names closest to `name`, or an empty string."""
    close = difflib.get_close_matches(name, list(known), n=3, cutoff=0.6)
    return f" Did you mean {', '.join(close)}?" if close else ""
