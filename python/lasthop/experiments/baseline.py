"""Regression checks: runs of the present code against those of a baseline, with the same draws."""

from __future__ import annotations

import json
import math
import operator
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lasthop import own_schemes, quantities
from lasthop.analysis import metrics, statistics
from lasthop.errors import InputError
from lasthop.experiments import comparison, plan, provenance, store
from lasthop.experiments.plan import single_run
from lasthop.scenarios import experiment, pipes

if TYPE_CHECKING:
    from lasthop.experiments.comparison import Comparison
    from lasthop.experiments.plan import Plan

SCHEMA_VERSION = 1
DEFAULT_GATE = "goodput >= 0.98"
DEFAULT_SEEDS = 10
OK, WORSE, UNDECIDED = "ok", "worse", "undecided"


@dataclass(frozen=True)
class Gate:
    """The ratio of means, present runs to baseline, must be at least or at most `ratio`."""

    metric: str
    at_least: bool
    ratio: float

    def __str__(self) -> str:
        sign = ">=" if self.at_least else "<="
        return f"{self.metric} {sign} {quantities.format_number(self.ratio)}"


@dataclass(frozen=True)
class Result:
    """The outcome of a gate for one case."""

    gate: Gate
    scheme: str
    set: Mapping[str, str]
    #: Ratio of the means to the baseline, and its 95 % interval; `None` if unknown.
    ratio: float | None
    ci95: tuple[float, float] | None
    runs: int
    verdict: str
    why: str
    #: True if nothing but processing times is drawn by seed, so that there is one run.
    deterministic: bool = False
    #: True if processing times are drawn by seed.
    processing_times: bool = False

    def to_dict(self) -> dict[str, Any]:
        """The object of `lasthop check --json`."""
        return {**vars(self), "gate": str(self.gate), "set": dict(self.set)}


def read_gate(text: str) -> Gate:
    """Read `METRIC >= RATIO` or `METRIC <= RATIO`; raises `InputError`."""
    found = re.fullmatch(r"\s*(\S+)\s*(>=|<=|≥|≤)\s*(.+?)\s*", text)
    if found is None:
        raise InputError(f"--gate must be METRIC >= RATIO or METRIC <= RATIO, found `{text}`")
    ratio = quantities.number(
        float(found[3]) if re.fullmatch(r"[\d.]+", found[3]) else found[3], "--gate"
    )
    if not ratio > 0:
        raise InputError(f"--gate: the ratio must be above 0, found `{text}`")
    metric = metrics.find(found[1], list(metrics.METRICS), "--gate")
    return Gate(metric, found[2] in (">=", "≥"), ratio)


@dataclass(frozen=True)
class Setup:
    """What to run: a scenario, schemes, axes and seeds."""

    file: str | None
    text: str
    settings: tuple[tuple[str, str], ...]
    last_hop: Mapping[str, str]
    schemes: tuple[str, ...]
    vary: Mapping[str, Sequence[str]]
    seeds: int
    #: The starts of flows and the places in traces are drawn by seed if nothing else is random.
    draw_starts: bool = True

    def plan(self, version: str) -> Plan:
        """The plan of its runs."""
        where = plan.Source(
            self.text,
            self.file,
            self.settings,
            tuple(plan.trace_paths(self.last_hop).items()),
            draw_starts=self.draw_starts,
        )
        own = experiment.read(Path(self.file or "scenario"), text=self.text).experiment.settings
        return plan.plan(
            where,
            [own_schemes.load_scheme(s) for s in self.schemes],
            self.seeds,
            self.vary,
            own=own,
            version=version,
            build=provenance.build_id(),
        )


def setup(
    file: str | None,
    settings: Sequence[tuple[str, str]],
    last_hop: Mapping[str, str],
    schemes: Sequence[str],
    vary: Mapping[str, Sequence[str]],
    seeds: int | None,
) -> Setup:
    """The runs that the options of a command line describe."""
    last_hop = {k: pipes.regular(v) if k in ("down", "up") else v for k, v in last_hop.items()}
    where = plan.source(file, settings=settings, last_hop=last_hop)
    given = experiment.read(Path(file or "scenario"), text=where.text).experiment
    return Setup(
        None if where.origin is None else file,
        where.text,
        tuple(settings),
        last_hop,
        tuple(schemes) or given.schemes,
        vary or given.vary,
        seeds or given.seeds or DEFAULT_SEEDS,
    )


def run(the_plan: Plan, version: str, cancel: Any) -> Comparison:
    """Do all runs; raises `CheckFailed` if one failed."""
    found = comparison.compare(the_plan, version=version, cancel=cancel)
    if found.interrupted:
        raise KeyboardInterrupt
    return found


def to_document(
    what: Setup, found: Comparison, gates: Sequence[Gate], command: str
) -> dict[str, Any]:
    """The document of a baseline."""
    cases = []
    for case in found.plan.cases:
        names = list(metrics.METRICS)
        rows = {m: found.values(case.point, case.label, m) for m in names}
        cases.append(
            {
                "point": case.point,
                "set": dict(case.set),
                "scheme": case.label,
                "seeds": list(found.plan.seeds_of(case)),
                "metrics": rows,
            }
        )
    return {
        "schema_version": SCHEMA_VERSION,
        "lasthop": found.version,
        "build": provenance.build_id(),
        "command": command,
        "scenario": found.plan.title,
        "scenario_sha256": found.plan.sha256,
        "file": what.file,
        "text": what.text,
        "settings": [list(s) for s in what.settings],
        "last_hop": dict(what.last_hop),
        "schemes": list(what.schemes),
        "vary": {k: list(v) for k, v in what.vary.items()},
        "seeds": what.seeds,
        "draw_starts": what.draw_starts,
        "gates": [str(g) for g in gates],
        "assumed": [f"{at}: {line}" if at else line for at, line in found.plan.assumed],
        "cases": cases,
    }


def read(path: Path) -> dict[str, Any]:
    """Read the document of a baseline; raises `InputError`."""
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        setup_of(found)
    except OSError as error:
        raise InputError(
            f"{path}: {error.strerror}; write a baseline with `lasthop check {path} --update"
            " FILE.toml --schemes …`"
        ) from None
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path} is not a baseline of `lasthop check --update`: {error}") from None
    if found.get("schema_version") != SCHEMA_VERSION:
        raise InputError(
            f"{path} has schema version {found.get('schema_version')}, this lasthop reads"
            f" {SCHEMA_VERSION}; write it again with --update"
        )
    return found


def setup_of(document: Mapping[str, Any]) -> Setup:
    """The runs of a baseline."""
    return Setup(
        document["file"],
        document["text"],
        tuple((k, v) for k, v in document["settings"]),
        document["last_hop"],
        tuple(document["schemes"]),
        document["vary"],
        document["seeds"],
        # An older lasthop drew nothing besides random processes; its runs are repeated so.
        document.get("draw_starts", False),
    )


def keep_traces(path: Path, what: Setup) -> Setup:
    """The runs of a baseline with the traces that came through a pipe kept beside it."""
    return replace(what, last_hop={k: pipes.keep(v, path.parent) for k, v in what.last_hop.items()})


def check_file(path: Path, what: Setup) -> None:
    """Raise `InputError` if the scenario file of a baseline was changed since it was written."""
    if what.file is None:
        return
    try:
        same = Path(what.file).read_text(encoding="utf-8") == what.text
    except OSError as error:
        raise InputError(f"{what.file}, the scenario of {path}: {error.strerror}") from None
    if not same:
        raise InputError(
            f"{what.file} was changed since {path} was written, so their runs cannot be compared;"
            f" write it again: lasthop check {path} --update"
        )


def judge(document: Mapping[str, Any], found: Comparison, gates: Sequence[Gate]) -> list[Result]:
    """Compare the present runs with those of a baseline, per case and gate."""
    before = {(c["point"], c["scheme"]): c for c in document["cases"]}
    results = []
    for case in found.plan.cases:
        old = before.get((case.point, case.label))
        for gate in gates:
            new = found.values(case.point, case.label, gate.metric)
            base = None if old is None else old["metrics"].get(gate.metric)
            judged = _judge(gate, case.label, case.set, new, base, not case.random)
            drawn = case.scenario.draws_processing_times
            results.append(replace(judged, processing_times=drawn))
    return results


def _judge(
    gate: Gate,
    scheme: str,
    at: Mapping[str, str],
    new: Sequence[float | None],
    old: Sequence[float | None] | None,
    fixed: bool,
) -> Result:
    def result(verdict: str, why: str, ratio: float | None = None, ci: Any = None) -> Result:
        return Result(gate, scheme, at, ratio, ci, len(new), verdict, why, fixed)

    if old is None or len(old) != len(new):
        return result(UNDECIDED, "the baseline has other runs, or a run failed")
    known_new, known_old = (all(v is not None for v in values) for values in (new, old))
    if not known_new and not known_old:
        return result(OK, "unknown in both")
    if not (known_new and known_old):
        return result(
            WORSE if known_old else OK, f"unknown in the {'new' if known_old else 'old'} runs"
        )
    if list(new) == list(old):
        return result(_verdict(gate, 1.0, 1.0), "equal in all runs", 1.0, (1.0, 1.0))
    found = statistics.ratio(new, old)
    if found.mean is None:
        return result(WORSE if not gate.at_least else OK, "0 in the baseline, now above 0")
    if fixed:
        return result(_verdict(gate, found.mean, found.mean), "", found.mean)
    if found.ci95 is None:
        return result(UNDECIDED, "the interval is unbounded; use more seeds", found.mean)
    return result(_verdict(gate, *found.ci95), "", found.mean, found.ci95)


def _verdict(gate: Gate, low: float, high: float) -> str:
    """Non-inferiority: the whole interval of the ratio must be on the right side."""
    inside = operator.ge if gate.at_least else operator.le
    near, far = (low, high) if gate.at_least else (high, low)
    if inside(near, gate.ratio):
        return OK
    return UNDECIDED if inside(far, gate.ratio) else WORSE


def text(result: Result) -> str:
    """One line for a result."""
    at = "".join(f", {k} = {v}" for k, v in result.set.items())
    ratio = ""
    if result.ratio is not None and math.isfinite(result.ratio):
        ratio = f"ratio {result.ratio:.4f}"
        if result.ci95:
            ratio += f" [{result.ci95[0]:.4f}, {result.ci95[1]:.4f}]"
    why = "; ".join(x for x in (ratio, result.why) if x)
    what = {OK: "ok", WORSE: "WORSE", UNDECIDED: "NOT SHOWN"}[result.verdict]
    runs = f"n = {result.runs}"
    if result.deterministic and result.runs == 1:
        runs = single_run(result.processing_times)
    return f"{what}  {result.scheme}{at}: {result.gate}: {', '.join(x for x in (why, runs) if x)}"


def junit(results: Sequence[Result], scenario: str, elapsed_s: float) -> str:
    """The results as JUnit XML, one test case per scheme, point and gate."""
    from xml.etree import ElementTree

    failures = [r for r in results if r.verdict != OK]
    counts = {"tests": str(len(results)), "failures": str(len(failures)), "errors": "0"}
    top = ElementTree.Element("testsuites", counts)
    suite = ElementTree.SubElement(
        top,
        "testsuite",
        {"name": f"lasthop check: {scenario}", **counts, "time": f"{elapsed_s:.3f}"},
    )
    for result in results:
        at = "".join(f", {k} = {v}" for k, v in result.set.items())
        case = ElementTree.SubElement(
            suite,
            "testcase",
            {"classname": f"lasthop.{result.scheme}", "name": f"{result.gate}{at}", "time": "0"},
        )
        if result.verdict != OK:
            failure = {"message": text(result), "type": result.verdict}
            ElementTree.SubElement(case, "failure", failure).text = text(result)
        else:
            ElementTree.SubElement(case, "system-out").text = text(result)
    ElementTree.indent(top)
    return ElementTree.tostring(top, encoding="unicode", xml_declaration=True) + "\n"


def write(path: Path, document: Mapping[str, Any]) -> None:
    """Write the document of a baseline."""
    store.write_whole(path, json.dumps(document, indent=1, ensure_ascii=False) + "\n")
