"""Chunks of a sweep, and what a worker process does with one."""

from __future__ import annotations

import os
import threading
import time
import traceback
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lasthop import own_schemes
from lasthop.errors import InputError, Interrupted
from lasthop.experiments import observing, plan, provenance
from lasthop.experiments.blocks import MAX_RUNS

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    import numpy.typing as npt

    from lasthop.experiments.plan import Scenario, Source

# Parsed scenarios that a worker keeps for later chunks.
_MAX_SCENARIOS = 64


@dataclass(frozen=True)
class CaseWork:
    """Runs of one case: what a worker needs to load it, and the seeds."""

    #: Number of the case in the sweep.
    case: int
    #: A name in the catalogue, or FILE.py:CLASS.
    scheme: str
    source: Source
    #: Digest of build, scenario, traces and rule; another one is refused.
    key: str
    seeds: tuple[int, ...]


@dataclass(frozen=True)
class Chunk:
    """Runs that a worker does in one piece."""

    number: int
    build: str
    metrics: tuple[str, ...]
    cases: tuple[CaseWork, ...]

    @property
    def runs(self) -> int:
        """Number of runs."""
        return sum(len(c.seeds) for c in self.cases)


@dataclass(frozen=True)
class Finished:
    """Runs that a worker has done; row i of `values` belongs to `cases[i]` and `seeds[i]`."""

    cases: list[int]
    seeds: list[int]
    #: One column per metric; NaN if unknown.
    values: npt.NDArray[np.float64]
    #: Why a run failed; empty if it did not.
    errors: list[str]
    #: CPU time, in seconds.
    cpu_s: float


_scenarios: OrderedDict[str, Scenario] = OrderedDict()
_scenarios_lock = threading.Lock()
_cancel: Any = None


def start_worker(alive: Connection) -> None:
    """Prepare a local worker process.

    When the pipe `alive` ends, running simulations are cancelled. The process exits when the
    process that started it is gone.
    """
    import multiprocessing
    import signal
    from multiprocessing.connection import wait

    from lasthop import _native

    # The sweep decides what an interrupt of the terminal means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    global _cancel
    _cancel = _native.CancelToken()
    parent = multiprocessing.parent_process()

    def watch() -> None:
        wait([alive])
        _cancel.cancel()
        if parent is not None:
            parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def worker_build() -> str:
    """The build of lasthop in this process."""
    return provenance.build_id()


def _scenario(work: CaseWork, build: str) -> Scenario:
    """Load the scenario of a case; raises `InputError` if it is not the one of the sweep."""
    with _scenarios_lock:
        if work.key in _scenarios:
            _scenarios.move_to_end(work.key)
            return _scenarios[work.key]
    from lasthop import _native

    scheme = own_schemes.load_scheme(work.scheme)
    scenario = plan.load(work.source, scheme)
    if worker_build() != build:
        raise InputError(
            f"a worker has another build of lasthop ({worker_build()[:12]}) than this sweep"
            f" ({build[:12]}); install the same wheel on all machines"
        )
    if plan.case_key(_native.version(), build, scenario, plan.rules_id(scenario)) != work.key:
        raise InputError(
            f"{work.scheme}: a worker reads another scenario, trace or rule than this sweep; give"
            " all machines the same files, and do not change them while the sweep runs"
        )
    with _scenarios_lock:
        _scenarios[work.key] = scenario
        if len(_scenarios) > _MAX_SCENARIOS:
            _scenarios.popitem(last=False)
    return scenario


def run_chunk(chunk: Chunk) -> Finished:
    """Do the runs of a chunk in a worker process."""
    return do_chunk(chunk, _scenario, _cancel)


def do_chunk(
    chunk: Chunk, scenario_of: Callable[[CaseWork, str], Scenario], cancel: Any
) -> Finished:
    """Do the runs of a chunk; an interrupt ends it early, with the runs that are finished.

    `scenario_of` returns the scenario of a case for a build of lasthop.
    """
    start = time.thread_time()
    cases: list[int] = []
    seeds: list[int] = []
    errors: list[str] = []
    rows: list[npt.NDArray[np.float64]] = []
    try:
        for work in chunk.cases:
            scenario = scenario_of(work, chunk.build)
            solo = plan.solo_of(scenario)
            for first in range(0, len(work.seeds), MAX_RUNS):
                wanted = work.seeds[first : first + MAX_RUNS]
                found = observing.run_seeds(scenario, solo, wanted, chunk.metrics, cancel)
                cases += [work.case] * len(found.errors)
                seeds += wanted[: len(found.errors)]
                rows.append(found.values)
                any_failed = any(found.errors)
                errors += map(_text, found.errors) if any_failed else [""] * len(found.errors)
                if len(found.errors) < len(wanted):
                    raise Interrupted
    except Interrupted:
        pass
    values = np.concatenate([np.empty((0, len(chunk.metrics))), *rows])
    return Finished(cases, seeds, values, errors, time.thread_time() - start)


def _text(error: BaseException | None) -> str:
    """An error as one line; empty without one."""
    if error is None:
        return ""
    lines = traceback.format_exception_only(error)
    return " ".join("".join(lines).split()) or type(error).__name__
