"""Scenarios for runs: the parsed scenario of the simulator, and what it is loaded from."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from lasthop import own_schemes
from lasthop.errors import InputError
from lasthop.experiments import python_values
from lasthop.experiments.python_values import ScenarioDict
from lasthop.quantities import JOINT_SEPARATOR

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from lasthop._native import Run

Scheme = str | own_schemes.SchemeClass

# Prefix of the keys of the settings of the scheme in `[tcp]`.
SCHEME_KEY = "tcp.scheme."
# File name that stands for stdin.
STDIN = "-"


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
        """True if the scenario has a random process."""

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


@dataclass(frozen=True)
class Source:
    """The source of a scenario: its text, its file, and the overrides of the caller."""

    text: str
    origin: str | None = None
    settings: tuple[tuple[str, str], ...] = ()
    last_hop: tuple[tuple[str, str], ...] = ()
    #: Options about flows: traffic, against, flows, start, upload, duration.
    flows: tuple[tuple[str, Any], ...] = ()

    def with_settings(self, more: Sequence[tuple[str, str]]) -> Source:
        """Return the source with additional `KEY=VALUE` settings.

        They override earlier settings and the options of the last hop.
        """
        keys = [k for k, _ in more]
        hop = tuple((k, v) for k, v in self.last_hop if f"last_hop.{k}" not in keys)
        return Source(self.text, self.origin, (*self.settings, *more), hop, self.flows)

    def for_scheme(self, scheme: Scheme) -> Source:
        """Return the source without those settings of a scheme that `scheme` does not have.

        These are keys such as `tcp.scheme.beta`, of which each compared scheme takes its own.
        """
        keys = [k for k, _ in self.settings if k.startswith(SCHEME_KEY)]
        if not keys:
            return self
        known = own_schemes.setting_names(scheme)
        other = {k for k in keys if k.removeprefix(SCHEME_KEY) not in known}
        kept = tuple((k, v) for k, v in self.settings if k not in other)
        return replace(self, settings=kept)


#: Folder of the traces shipped with lasthop.
TRACES = Path(__file__).parents[1] / "data" / "traces"

Loader = Callable[[Source, Scheme | None], Scenario]


def load(source: Source, scheme: Scheme | None = None) -> Scenario:
    """Parse and check a scenario; raises `InputError`.

    `scheme` replaces the one of `[tcp]`: a class, or a name as on the command line. Settings of
    `tcp.scheme` apply to it.
    """
    from lasthop import _native

    settings = list(source.settings)
    if scheme is not None:
        own = [(k, v) for k, v in settings if k.startswith(SCHEME_KEY)]
        settings = [(k, v) for k, v in settings if not k.startswith(SCHEME_KEY)]
        changed = {k.removeprefix(SCHEME_KEY): v for k, v in own}
        scheme = own_schemes.with_settings(scheme, changed)
    return _native.Scenario(
        source.text,
        source.origin,
        settings,
        scheme,
        dict(source.last_hop),
        {k: list(v) if isinstance(v, tuple) else v for k, v in source.flows},
    )


@dataclass(frozen=True)
class Origin:
    """What a scenario was loaded from, in a form that can be pickled.

    The files of its traces and schemes must be found under the same paths.
    """

    source: Source
    #: The scheme that replaced the one in `[tcp]`.
    scheme: Scheme | None = None

    def load(self) -> Scenario:
        """Load the scenario; raises `InputError`."""
        return load(self.source, self.scheme)

    def __getstate__(self) -> tuple[Source, Any]:
        scheme = self.scheme
        return self.source, None if scheme is None else own_schemes.Reference.to(scheme)

    def __setstate__(self, state: tuple[Source, Any]) -> None:
        source, scheme = state
        if isinstance(scheme, own_schemes.Reference):
            scheme = scheme.load()
        elif isinstance(scheme, str):
            scheme = own_schemes.load_scheme(scheme)
        self.__dict__.update(source=source, scheme=scheme)


def trace_path(trace: str) -> str:
    """Path of a trace: a file relative to the current folder, or a trace shipped with lasthop."""
    here, shipped = Path(trace).absolute(), TRACES / trace
    return (
        str(shipped)
        if not here.exists() and Path(trace).name == trace and shipped.is_file()
        else str(here)
    )


def source(
    file: str | Path | ScenarioDict | None = None,
    *,
    text: str | None = None,
    settings: Sequence[tuple[str, str]] = (),
    last_hop: Mapping[str, object] | None = None,
    varied: Sequence[str] = (),
    flows: Mapping[str, Any] | None = None,
) -> Source:
    """Return the source of the scenario in `file`, in `text`, or described by `last_hop` alone.

    `file` may also be a dictionary in the form of a file. `flows` has the options about flows, by
    name. With the file "-", the scenario is read from stdin. The title that describes a last hop
    leaves out the keys in `varied`.
    """
    if file is not None and text is not None:
        raise InputError("give a scenario as a file or dictionary, or its text, not both")
    hop = tuple(
        (k, trace_path(v) if k in ("down", "up") else v)
        for k, v in python_values.last_hop_texts(last_hop or {}).items()
    )
    about_flows = tuple(python_values.flow_options(flows or {}).items())
    if isinstance(file, Mapping):
        text, file = python_values.scenario_text(file), None
    if text is not None:
        return Source(text, None, tuple(settings), hop, about_flows)
    if file is not None and str(file) == STDIN:
        return Source(_stdin(), None, tuple(settings), hop, about_flows)
    if file is not None:
        path = Path(file)
        try:
            content = path.read_text(encoding="utf-8")
            return Source(content, str(path), tuple(settings), hop, about_flows)
        except UnicodeDecodeError:
            raise InputError(f"{path}: not a text file in UTF-8") from None
        except OSError as error:
            raise InputError(f"{path}: {error.strerror or error}") from None
    if not hop:
        raise InputError(
            "give a scenario FILE, or a last hop such as --rate 2Mbps --rtt 40ms (or --down and"
            " --up with traces)"
        )
    changed = {*dict(settings), *(part for key in varied for part in key.split(JOINT_SEPARATOR))}
    shown = [(k, v) for k, v in hop if not {k, f"last_hop.{k}"} & changed]
    title = json.dumps(_last_hop_title(shown) + _flows_title(dict(about_flows)))
    described = f'title = {title}\nduration = "60 s"\n[last_hop]\n'
    return Source(described, None, tuple(settings), hop, about_flows)


def _stdin() -> str:
    """The text on stdin; raises `InputError` if it is a terminal or not UTF-8."""
    if sys.stdin is None or sys.stdin.isatty():
        raise InputError("-: the scenario is read from stdin, which is a terminal; use a pipe")
    try:
        return sys.stdin.read()
    except UnicodeDecodeError:
        raise InputError("-: stdin is not text in UTF-8") from None


def _flows_title(flows: Mapping[str, Any]) -> str:
    """Describe the options about flows: "; web+bulk, 2 flows against cubic, upload"."""
    count = flows.get("flows", 1)
    parts = [f"{count} flow{'s' if count > 1 else ''}" if "flows" in flows else ""]
    parts.append(f"against {', '.join(flows['against'])}" if flows.get("against") else "")
    words = [
        flows.get("traffic", ""),
        " ".join(p for p in parts if p),
        "upload" if flows.get("upload") else "",
    ]
    text = ", ".join(w for w in words if w)
    return f"; {text}" if text else ""


def _last_hop_title(hop: Sequence[tuple[str, str]]) -> str:
    """Describe the options of the last hop: "last hop: 2 Mbps, RTT 40 ms, loss 1 %"."""
    given, parts = dict(hop), []
    for key, name in {
        "down": "",
        "up": "",
        "rate": "",
        "rtt": "RTT ",
        "loss": "loss ",
        "queue": "queue ",
    }.items():
        if key in given:
            value = given[key]
            text = (
                Path(value).name
                if key in ("down", "up")
                else re.sub(r"(?<=[\d.])([A-Za-z%/]+)$", r" \1", value)
            )
            parts.append(name + "".join(c if c.isprintable() else "?" for c in text))
    return "last hop" + (": " + ", ".join(parts) if parts else "")


__all__ = [
    "JOINT_SEPARATOR",
    "Loader",
    "Origin",
    "Scenario",
    "Scheme",
    "Source",
    "load",
    "source",
    "trace_path",
]
