"""A picture of what was submitted, and why what waits for what."""
from __future__ import annotations

import re
import shutil
import subprocess
from typing import TYPE_CHECKING, Any, Optional

from . import _dtypes

if TYPE_CHECKING:
    from ._session import Session


class Dag:
    """The work submitted last (1024 pieces of it): a box each, an arrow for a dependency, with its array and hazard.

    Taken when it was asked for; it does not change. Notebooks draw it: as SVG where graphviz's `dot` is installed, else by
    Mermaid."""

    __slots__ = ("_dot", "_mermaid")

    def __init__(self, session: Session) -> None:
        self._dot, self._mermaid = session._dag("dot"), session._dag("mermaid")

    def dot(self) -> str:
        """In graphviz's language."""
        return self._dot

    def mermaid(self) -> str:
        """In Mermaid's language, which GitHub and notebooks draw in Markdown."""
        return self._mermaid

    def svg(self) -> Optional[str]:
        """As SVG; None where graphviz's `dot` is not installed. Raises `OSError` or `subprocess.SubprocessError` where it
        fails, or takes half a minute."""
        program = shutil.which("dot")
        if program is None:
            return None
        return subprocess.run([program, "-Tsvg"], input=self._dot, capture_output=True, text=True, check=True,
                              encoding="utf-8", timeout=30).stdout

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        bundle = {"text/plain": self._mermaid, "text/markdown": f"```mermaid\n{self._mermaid}\n```"}
        try:
            svg = self.svg()
        except (OSError, subprocess.SubprocessError):  # the text is there all the same
            svg = None
        return bundle if svg is None else {**bundle, "image/svg+xml": svg}

    def __repr__(self) -> str:
        pieces = len(re.findall(r"^\s*c\d+ \[", self._dot, re.MULTILINE))
        edges = len(re.findall(r"^\s*c\d+ -> ", self._dot, re.MULTILINE))
        return (f"<pergola.Dag of {_dtypes.plural(pieces, 'piece')} of work and {_dtypes.plural(edges, 'dependency')}: dot() and "
                "mermaid() are its text>")

    def __str__(self) -> str:
        return self._mermaid
