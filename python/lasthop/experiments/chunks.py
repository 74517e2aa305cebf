"""Chunks of a sweep, and what a worker process does with one."""

from __future__ import annotations

import json
import math
import os
import threading
import time
import traceback
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lasthop import own_schemes
from lasthop.errors import InputError, Interrupted
from lasthop.experiments import observing, plan, provenance

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
    rows: list[list[float]] = []
    unknown = [math.nan] * len(chunk.metrics)
    try:
        for work in chunk.cases:
            scenario = scenario_of(work, chunk.build)
            solo = plan.solo_of(scenario)
            for seed in work.seeds:
                error, row = "", unknown
                try:
                    row = _observe(scenario, solo, seed, chunk.metrics, cancel)
                except (Interrupted, InputError):
                    raise
                except BaseException as found:
                    lines = traceback.format_exception_only(found)
                    error = " ".join("".join(lines).split()) or type(found).__name__
                cases.append(work.case)
                seeds.append(seed)
                rows.append(row)
                errors.append(error)
    except Interrupted:
        pass
    values = np.array(rows, dtype=float).reshape(len(rows), len(chunk.metrics))
    return Finished(cases, seeds, values, errors, time.thread_time() - start)


def _observe(
    scenario: Scenario, solo: Scenario | None, seed: int, names: Sequence[str], cancel: Any
) -> list[float]:
    run = json.loads(scenario.run(seed, cancel))
    found = observing.of_run(run, observing.solo_run(solo, seed, cancel), names)
    return [math.nan if found.get(n) is None else float(found[n] or 0.0) for n in names]
