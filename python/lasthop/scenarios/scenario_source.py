"""What scenarios are loaded from, and how."""

from __future__ import annotations

import os
import sys

from lasthop.errors import InputError
from lasthop.quantities import JOINT_SEPARATOR

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path
    from typing import Any

    from lasthop.own_schemes import Scheme
    from lasthop.scenarios.python_values import ScenarioDict, Settings
    from lasthop.scenarios.scenario import Scenario

# Prefix of the keys of the settings of the scheme in `[tcp]`.
SCHEME_KEY = "tcp.scheme."
# File name that stands for stdin.
STDIN = "-"


class Source:
    """The source of a scenario: its text, its file, and the overrides of the caller.

    `flows` are the options about flows: traffic, against, flows, start, upload, duration. With
    `draw_starts`, the starts of flows and the places in traces are drawn by seed if nothing else
    is random (docs/scenario.md, `random_starts`).
    """

    def __init__(
        self,
        text: str,
        origin: str | None = None,
        settings: tuple[tuple[str, str], ...] = (),
        last_hop: tuple[tuple[str, str], ...] = (),
        flows: tuple[tuple[str, Any], ...] = (),
        draw_starts: bool = False,
    ) -> None:
        self.text = text
        self.origin = origin
        self.settings = settings
        self.last_hop = last_hop
        self.flows = flows
        self.draw_starts = draw_starts

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Source) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash(tuple(vars(self).values()))

    def with_settings(self, more: Sequence[tuple[str, str]]) -> Source:
        """Return the source with additional `KEY=VALUE` settings.

        They override earlier settings and the options of the last hop.
        """
        keys = [k for k, _ in more]
        hop = tuple((k, v) for k, v in self.last_hop if f"last_hop.{k}" not in keys)
        return self._changed((*self.settings, *more), hop)

    def for_scheme(self, scheme: Scheme) -> Source:
        """Return the source without those settings of a scheme that `scheme` does not have.

        These are keys such as `tcp.scheme.beta`, of which each compared scheme takes its own.
        """
        keys = [k for k, _ in self.settings if k.startswith(SCHEME_KEY)]
        if not keys:
            return self
        from lasthop import own_schemes

        known = own_schemes.setting_names(scheme)
        other = {k for k in keys if k.removeprefix(SCHEME_KEY) not in known}
        kept = tuple((k, v) for k, v in self.settings if k not in other)
        return self._changed(kept, self.last_hop)

    def _changed(
        self, settings: tuple[tuple[str, str], ...], last_hop: tuple[tuple[str, str], ...]
    ) -> Source:
        return Source(self.text, self.origin, settings, last_hop, self.flows, self.draw_starts)


#: Folder of the traces shipped with lasthop.
TRACES = os.path.join(os.path.dirname(os.path.dirname(__file__)), "data", "traces")


def load(source: Source, scheme: Scheme | None = None) -> Scenario:
    """Parse and check a scenario; raises `InputError`.

    `scheme` replaces the one of `[tcp]`: a class, or a name as on the command line. Settings of
    `tcp.scheme` apply to it.
    """
    from lasthop import _native

    settings = list(source.settings)
    if scheme is not None:
        from lasthop import own_schemes

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
        source.draw_starts,
    )


def trace_path(trace: str) -> str:
    """Path of a trace: a file relative to the current folder, or a trace shipped with lasthop.

    A pipe is read here, and the path is that of a copy; see `pipes`.
    """
    from pathlib import Path

    here, shipped = Path(trace).absolute(), Path(TRACES) / trace
    if not here.exists() and Path(trace).name == trace and shipped.is_file():
        return str(shipped)
    if here.is_file() and not str(here).startswith("/dev/"):
        return str(here)
    from lasthop.scenarios import pipes

    return pipes.regular(str(here))


def trace_paths(last_hop: Mapping[str, str]) -> dict[str, str]:
    """The options of a last hop, with the paths of their traces."""
    return {k: trace_path(v) if k in ("down", "up") else v for k, v in last_hop.items()}


def described(
    file: str | Path | ScenarioDict | None,
    text: str | None,
    settings: Settings,
    last_hop: Mapping[str, object] | None,
    flows: Mapping[str, Any] | int | None,
    options: Mapping[str, Any],
    **more: Any,
) -> Source:
    """The source that the arguments of a function of the package describe; `more` are further
    arguments of `source`.
    """
    from lasthop.scenarios import python_values

    last_hop, flows = python_values.with_options(last_hop, flows, options)
    pairs = python_values.setting_pairs(settings)
    return source(file, text=text, settings=pairs, last_hop=last_hop, flows=flows, **more)


def source(
    file: str | Path | ScenarioDict | None = None,
    *,
    text: str | None = None,
    settings: Sequence[tuple[str, str]] = (),
    last_hop: Mapping[str, object] | None = None,
    varied: Sequence[str] = (),
    flows: Mapping[str, Any] | None = None,
    draw_starts: bool = False,
) -> Source:
    """Return the source of the scenario in `file`, in `text`, or described by `last_hop` alone.

    `file` may also be a dictionary in the form of a file. `flows` has the options about flows, by
    name. With the file "-", the scenario is read from stdin. The title that describes a last hop
    leaves out the keys in `varied`. `draw_starts` is for what compares runs; see `Source`.
    """
    if file is not None and text is not None:
        raise InputError("give a scenario as a file or dictionary, or its text, not both")
    hop = tuple(trace_paths(_last_hop_texts(last_hop or {})).items())
    about_flows = tuple(_flow_options(flows or {}).items())
    if file is not None and not isinstance(file, (str, os.PathLike)):
        from lasthop.scenarios import python_values

        text, file = python_values.scenario_text(file), None
    if text is not None:
        return Source(text, None, tuple(settings), hop, about_flows, draw_starts)
    if file is not None and str(file) == STDIN:
        return Source(_stdin(), None, tuple(settings), hop, about_flows, draw_starts)
    if file is not None:
        path = os.fspath(file)
        if os.path.normpath(path) != path:
            from pathlib import Path

            path = str(Path(path))
        # What a pipe names is relative to the current folder, as for stdin.
        origin = path if os.path.isfile(path) else None
        try:
            with open(path, encoding="utf-8") as opened:
                content = opened.read()
            return Source(content, origin, tuple(settings), hop, about_flows, draw_starts)
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
    import json

    title = json.dumps(_last_hop_title(shown) + _flows_title(dict(about_flows)))
    described = f'title = {title}\nduration = "60 s"\n[last_hop]\n'
    return Source(described, None, tuple(settings), hop, about_flows, draw_starts)


def _last_hop_texts(given: Mapping[str, object]) -> dict[str, str]:
    """The options of a last hop as texts; most are texts."""
    texts = {key: value for key, value in given.items() if isinstance(value, str)}
    if len(texts) == sum(value is not None for value in given.values()):
        return texts
    from lasthop.scenarios import python_values

    return python_values.last_hop_texts(given)


def _flow_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """The options about flows, if there are any."""
    if not given:
        return {}
    from lasthop.scenarios import python_values

    return python_values.flow_options(given)


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
    import re

    given, parts = dict(hop), []
    for key, name in {
        "down": "",
        "up": "",
        "rate": "",
        "rtt": "RTT ",
        "loss": "loss ",
        "queue": "queue ",
        "mtu": "MTU ",
    }.items():
        if key in given:
            value = given[key]
            text = (
                os.path.basename(value)
                if key in ("down", "up")
                else re.sub(r"(?<=[\d.])([A-Za-z%/]+)$", r" \1", value)
            )
            parts.append(name + "".join(c if c.isprintable() else "?" for c in text))
    return "last hop" + (": " + ", ".join(parts) if parts else "")


__all__ = ["JOINT_SEPARATOR", "Source", "described", "load", "source", "trace_path", "trace_paths"]
