"""Scenarios for runs: the parsed scenario of the simulator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from lasthop import own_schemes

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from lasthop._native import Run


class Scenario(Protocol):
    """A parsed and checked scenario, as `lasthop._native.Scenario`."""

    @property
    def title(self) -> str:
        """The title."""

    @property
    def filled(self) -> str:
        """The scenario as TOML with all defaults filled in."""

    @property
    def random(self) -> bool:
        """True if the scenario has a random process other than processing times."""

    @property
    def draws_processing_times(self) -> bool:
        """True if the times that receivers take to answer are drawn by seed."""

    @property
    def random_starts(self) -> str | None:
        """The key `random_starts`, also if it was added because nothing else is random."""

    @property
    def estimated_frames(self) -> int:
        """Estimated number of frames that one run sends over links."""

    @property
    def scheme(self) -> dict[str, Any]:
        """Label, name, settings, family and group of the scheme in `[tcp]`."""

    @property
    def slots(self) -> list[str]:
        """Per flow, one line: the scheme and its components (window, recovery, agent, …)."""

    @property
    def groups(self) -> Sequence[tuple[str, int]]:
        """Groups of flows, one per [[flow]] table with flows: name and number of flows."""

    @property
    def has_users(self) -> bool:
        """True if a flow is a call, a ping, a client or a web session."""

    @property
    def group_roles(self) -> Sequence[tuple[str, str, str]]:
        """Of each group its name, role and scheme; datagrams have an empty scheme."""

    def without_candidates(self) -> Scenario | None:
        """The scenario without its candidates; `None` if it has none, or no other flow."""

    def fingerprint(self) -> int:
        """Number that identifies the network: equal networks have equal results."""

    def counters(self) -> Sequence[tuple[str, Sequence[str]]]:
        """Scheme and names of the counters of each agent and relay."""

    @property
    def classes(self) -> Sequence[own_schemes.SchemeClass]:
        """The classes of the schemes in Python that the scenario names."""

    @property
    def warnings(self) -> list[str]:
        """Warnings about schemes that are unsafe in some networks, one line each."""

    @property
    def assumed(self) -> list[str]:
        """Assumptions for what the file does not specify, one line each."""

    @property
    def bounds(self) -> list[dict[str, str]]:
        """Settings that limit the throughput of the first TCP flow (limited_by, setting, value)."""

    @property
    def inputs(self) -> list[str]:
        """Paths of the trace files that the scenario reads."""

    def run(self, seed: int, cancel: Any = None) -> Run:
        """Do one run and return its result."""

    def run_alone(self, seed: int, cancel: Any = None) -> Run:
        """The same for a scenario without candidates; results are kept."""

    def run_many(
        self, seeds: list[int], names: list[str], alone: Any = None, cancel: Any = None
    ) -> NDArray[np.float64]:
        """Do a run for each seed and return the metrics with these names: a row per seed.

        NaN if unknown. After an interrupt, the rows of the finished runs. `alone` is the scenario
        without its candidates, for harm. Not for schemes in Python.
        """


__all__ = ["Scenario"]
