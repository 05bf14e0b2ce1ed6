"""What became a graph, and why not."""
from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from . import _dtypes

if TYPE_CHECKING:
    from ._session import Session


class Way(NamedTuple):
    """One of the ways in which a run of launches may be a graph; or of the forms of a turn that the host waits for."""

    # "plain", "ordered", "uploads-in-a-row", "copies-in-rows", "engines-in-rows", "copies-together", "together-in-rows",
    # "trimmed", "packed", "packed-early", "merged", "merged-kernels", "early", "merged-early", "stacked", "stacked-alone", "merged-stacked", "by-block",
    # "fused", "fused-block", "columns", "constants", and on top of others "constants-stacked" and so on; more instances
    # of one "plain #2", "plain #3"; of a form "leads", "whole", "launches"
    name: str
    state: str  # "only", "tried" (still), "kept", "put-back", "refused"
    best_us: float  # what it takes, by the mean of its tries but the longest, of a form by its turns; 0: not known
    tries: int  # that were timed
    why: str  # what it does; of one that was refused, why


class Graph(NamedTuple):
    """A run of launches that is a graph, or might be one."""

    first: int  # launch of its region, from 0
    launches: int
    ahead: tuple[int, ...]  # of these the uploads that go when they come, and are no part of the graph
    state: str  # "waiting" (for the device to have enough to do), "making", "ready", "refused", "replaced", "put-back"
    refusal: str  # why it is refused
    made_after: int  # computations that had been submitted when it was made; 0: it never was
    launched: int  # how often, as a graph
    elsewhere: int  # since its way was chosen, on another stream than that on which this one is the fastest
    making_us: float  # that making its plain way took, on a thread of its own; 0: it has not been made
    ways: tuple[Way, ...]


class Region(NamedTuple):
    """Launches that recurred."""

    number: int  # from 1; traces have it
    period: int  # launches after which it repeats itself
    kernels: dict[str, int]  # of one period, by their names in the PTX
    found_after: int  # computations that had been submitted when it was found
    met_again: int  # times that it was found once more, after something else had come
    varying: tuple[str, ...]  # kernels of which a launch has scalars that change
    rebinding: tuple[str, ...]  # the same, with arrays that change
    replaced: int  # launches for which graphs stood
    flushed: int  # launches that were held back, and then launched one by one:
    interrupted: int  # so often because something that is no launch came,
    overdue: int  # so often because they had been held for too long
    mismatched: int  # times that another launch came than was expected
    mismatch: str  # the last time: which
    too_little: int  # times that launches were not held back, as the device had too little to do
    most_queued_us: float  # the most that was seen queued then
    forgotten_graphs: int  # older ones, for which there was no room
    paced: int  # times that launches were held back on an idle device, as the host was behind it
    holds_pace: bool  # whether they are now
    paced_launches_us: float  # what a turn took the last time that this was tried, as launches
    paced_graphs_us: float  # and as graphs; 0: not known
    forms: tuple[Way, ...]  # in which turns that the host waits for were tried; the time is the host's, of a whole turn
    graphs: tuple[Graph, ...]


class Graphs:
    """Which launches recurred and ran as graphs, since when and in which way, and why others did not.

    Taken when it was asked for; it does not change. str() is for people."""

    __slots__ = ("off", "launches", "apart", "forgotten", "regions", "_text")
    off: str  # why no launches may become graphs; "" where they may
    launches: int  # that were looked at
    apart: int  # of kernels that cannot be in a graph
    forgotten: int  # older regions, for which there was no room
    regions: tuple[Region, ...]
    _text: str

    def __init__(self, session: Session) -> None:
        told = json.loads(session._graphs("json"))
        self._text = session._graphs("text")
        self.off, self.launches = told["off"], told["launches"]
        self.apart, self.forgotten = told["apart"], told["forgotten"]
        self.regions = tuple(self._region(region) for region in told["regions"])

    @staticmethod
    def _region(told: dict[str, Any]) -> Region:
        graphs = tuple(Graph(**{**graph, "ahead": tuple(graph["ahead"]), "ways": tuple(Way(**way) for way in graph["ways"])})
                       for graph in told["graphs"])
        kernels = {kernel["name"]: kernel["count"] for kernel in told["kernels"]}
        forms = tuple(Way(**form) for form in told["forms"])
        varying, rebinding = tuple(told["varying"]), tuple(told["rebinding"])
        return Region(**{**told, "kernels": kernels, "varying": varying, "rebinding": rebinding, "forms": forms,
                         "graphs": graphs})

    def __repr__(self) -> str:
        if self.off:
            return f"<pergola.Graphs: none, {self.off}>"
        return (f"<pergola.Graphs of {_dtypes.plural(self.launches, 'launch')}: {_dtypes.plural(len(self.regions), 'region')}, "
                "print() tells of them>")

    def __str__(self) -> str:
        return self._text
