"""A picture of what was submitted, and why what waits for what."""
from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from . import _dtypes

if TYPE_CHECKING:
    from ._session import Session


class Dag:
    """The work submitted last (1024 pieces of it): a box each, an arrow for a dependency, with its array and hazard.

    An access of the host is one where it had to wait. Taken when it was asked for; it does not change. Notebooks draw it."""

    __slots__ = ("_dot", "_mermaid", "_svg")

    def __init__(self, session: Session) -> None:
        self._dot, self._mermaid, self._svg = session._dag("dot"), session._dag("mermaid"), session._dag("svg")

    def dot(self) -> str:
        """In graphviz's language."""
        return self._dot

    def mermaid(self) -> str:
        """In Mermaid's language, which GitHub and notebooks draw in Markdown."""
        return self._mermaid

    def svg(self) -> str:
        """Drawn: a row a stream and one for the host, a box behind all that it comes after."""
        return self._svg

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/plain": self._mermaid, "image/svg+xml": self._svg}

    def __repr__(self) -> str:
        pieces = len(re.findall(r"^\s*c\d+ \[", self._dot, re.MULTILINE))
        edges = len(re.findall(r"^\s*c\d+ -> ", self._dot, re.MULTILINE))
        return (f"<pergola.Dag of {_dtypes.plural(pieces, 'piece')} of work and {_dtypes.plural(edges, 'dependency')}: dot() and "
                "mermaid() are its text>")

    def __str__(self) -> str:
        return self._mermaid
