"""Scenarios as dictionaries: values of Python as the text of scenario files and options.

A text is taken as in a scenario file. A number is in the base unit of its key, which the JSON
Schema of scenario files tells: seconds, bit/s, bytes, or a share from 0 to 1. Numbers that could
mean another unit are refused, because nobody sees the error in a result.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from decimal import Decimal
from functools import cache
from numbers import Integral, Real
from os import PathLike, fspath
from typing import Any

from lasthop import own_schemes, quantities
from lasthop.errors import InputError
from lasthop.quantities import JOINT_SEPARATOR, LAST_HOP

#: Options about flows that are arguments, as on the command line.
FLOWS = ("traffic", "against", "start", "upload", "duration")
#: Values of Python for keys of a scenario: {"tcp.min_rto": 1} or pairs of texts.
Settings = Sequence[tuple[str, str]] | Mapping[str, object]
#: A time: "500 ms", or a number of seconds.
Time = str | float | timedelta
#: A dictionary in the form of a scenario file.
ScenarioDict = Mapping[str, Any]
Schema = Mapping[str, Any]

#: Examples of the quantities whose short form the schema shows as a text.
_SHORT_FORMS = {
    "DelayForm": "5 ms",
    "LossForm": "1 %",
    "QueueForm": "49 packets",
    "ReceiveWindowForm": "20 segments",
    "SizesForm": "20 segments",
}
#: Keys of delays: ten seconds or more are taken for milliseconds without their unit.
_DELAYS = ("rtt", "delay", "base")
_LONGEST_DELAY_S = 10.0
#: Rates below it are taken for a number in another unit than bit/s.
_LOWEST_RATE = 1000.0
#: Units of printed numbers, from the largest.
_TIMES, _RATES = (("s", 0), ("ms", 3), ("us", 6)), (("Gbps", -9), ("Mbps", -6), ("kbps", -3))
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
#: Tables whose keys are keys of the scenario, with lists of values.
_AXES = (("experiment", "vary"), ("sweep", "vary"), ("sweep", "zip"), ("claim", "each"))
#: Tables whose keys are keys of the scenario, with one value.
_POINTS = (("claim", "at"), ("claim", "against"))
#: The table with the settings that a scheme needs: its label, then keys of the scenario.
_NEEDS = ("experiment", "settings")


def scenario_text(scenario: ScenarioDict) -> str:
    """A scenario in the form of a scenario file as TOML, one line per key of the top level.

    Keys with the value `None` are left out. Raises `InputError` for ambiguous numbers and values
    that TOML does not have.
    """
    return "".join(
        f"{_key(name)} = {_value(value, (str(name),), _below([_schema()], str(name)))}\n"
        for name, value in scenario.items()
        if value is not None
    )


def setting_pairs(given: Settings) -> list[tuple[str, str]]:
    """The overrides of scenario keys, as texts."""
    if not isinstance(given, Mapping):
        return [(key, value_text(key, value)) for key, value in given]
    return [(str(key), value_text(str(key), value)) for key, value in given.items()]


def value_text(key: str, value: object) -> str:
    """A value of a scenario key as `--set KEY=VALUE` takes it; a text is left as it is."""
    if isinstance(value, str):
        return value
    if isinstance(value, PathLike):
        return str(fspath(value))
    text = _value(value, tuple(key.split(".")), _at_key(key))
    # A quantity needs no quotation marks, and is shown without them.
    return json.loads(text) if text.startswith('"') else text


def axis_texts(key: str, values: Any) -> list[str]:
    """The values of a varied key; of jointly varied keys ("A & B") each value is a tuple."""
    if isinstance(values, (str, bytes)) or not isinstance(values, Sequence):
        values = _listed(key, values)
    keys = key.split(JOINT_SEPARATOR)
    found = []
    for value in values:
        if len(keys) > 1 and isinstance(value, (tuple, list)):
            if len(value) != len(keys):
                raise InputError(f"`{key}` names {len(keys)} keys, but {value!r} has {len(value)}")
            pairs = zip(keys, value, strict=True)
            found.append(JOINT_SEPARATOR.join(value_text(k, v) for k, v in pairs))
        else:
            found.append(value_text(key, value))
    return found


def _listed(key: str, values: Any) -> list[Any]:
    """An array or range as a list."""
    if hasattr(values, "tolist") and getattr(values, "ndim", 1) == 1:
        return list(values.tolist())
    if isinstance(values, (str, bytes)) or not hasattr(values, "__iter__"):
        raise InputError(f"vary: {key} needs a list of values, found {values!r}")
    return list(values)


def last_hop_texts(given: Mapping[str, object]) -> dict[str, str]:
    """The options of a last hop, such as {"rate": 2e6, "loss": 0.01}, as texts."""
    for key in ("down", "up"):
        if not isinstance(found := given.get(key), str | PathLike | None):
            raise InputError(
                f'{key} is the name of a trace file, such as "my.down" (one time in milliseconds'
                f" on each line), found {found!r}"
            )
    return {
        key: value_text(f"last_hop.{key}", value)
        for key, value in given.items()
        if value is not None
    }


def with_options(
    last_hop: Mapping[str, object] | None,
    flows: Mapping[str, Any] | int | None,
    options: Mapping[str, Any],
) -> tuple[Mapping[str, object] | None, Mapping[str, Any] | None]:
    """The last hop and the flows, with the options that are given by their names as arguments.

    Raises `InputError` for a name that is no such option, and for an option that is given twice.
    """
    hop, about = dict(last_hop or {}), dict(flows) if isinstance(flows, Mapping) else {}
    if isinstance(flows, int):
        about["flows"] = flows
    for name, value in options.items():
        if name not in (*LAST_HOP, *FLOWS):
            hint = quantities.did_you_mean(name, [*LAST_HOP, *FLOWS])
            raise InputError(
                f"there is no argument `{name}`{hint}; keys of a scenario are given as"
                f" settings={{{name!r}: …}}"
            )
        place = hop if name in LAST_HOP else about
        if place.get(name) is not None:
            raise InputError(f"{name} is given twice")
        place[name] = value
    return hop or None, about or None


def flow_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """The options about flows: times as texts, schemes by name."""
    found = {key: value for key, value in given.items() if value is not None}
    if "against" in found:
        rivals = found["against"]
        rivals = [rivals] if isinstance(rivals, (str, type)) else rivals
        found["against"] = tuple(own_schemes.name_of(s) for s in rivals)
    if isinstance(found.get("flows"), int):
        quantities.whole_number(found["flows"], "flows", 1)
    if "start" in found:
        starts = found["start"]
        starts = starts if isinstance(starts, (list, tuple)) else [starts]
        found["start"] = tuple(value_text("flow.1.start", s) for s in starts)
    if "duration" in found:
        found["duration"] = value_text("duration", found["duration"])
    return found


@cache
def _schema() -> Schema:
    from lasthop import _native

    found: Schema = _native.schema()
    return found


def _alternatives(schema: Schema) -> Iterator[Schema]:
    """A schema and everything that it may stand for."""
    yield schema
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        if name in _SHORT_FORMS:
            yield {"type": ["string", "number"], "examples": [_SHORT_FORMS[name]]}
        yield from _alternatives(_schema()["$defs"][name])
    for word in ("anyOf", "oneOf", "allOf"):
        for part in schema.get(word, ()):
            yield from _alternatives(part)


def _below(schemas: Sequence[Schema], name: str | None) -> list[Schema]:
    """The schemas of a key, or with `None` of an item of a list."""
    found: list[Schema] = []
    for schema in (a for s in schemas for a in _alternatives(s)):
        below = schema.get("items") if name is None else schema.get("properties", {}).get(name)
        if isinstance(below, Mapping):
            found.append(below)
    return found


def _at_key(key: str) -> list[Schema]:
    """The schemas of a key as `--set` takes it: links, cells, flows and nodes by name or number."""
    words = [word.strip().strip('"') for word in key.split(".")]
    root = _schema()
    if words[0] not in root["properties"]:
        words.insert(0, "last_hop")
    elif words[:2] == ["link", "radio"] and len(words) > 2:
        # With a short form of the network, the link `radio` has the keys of the last hop.
        other = _below(_below([root], "last_hop"), words[2])
        found = _walk([root], words)
        return found or _walk(other, words[3:])
    return _walk([root], words)


def _walk(schemas: list[Schema], words: Sequence[str]) -> list[Schema]:
    for word in words:
        items = _below(schemas, None)
        # The word after `link`, `flow`, … is the name of an item.
        schemas = items if items and not _below(schemas, word) else _below(schemas, word)
    return schemas


def _quantity(schemas: Sequence[Schema]) -> str:
    """The dimension of a quantity: s, bit/s, B, packets, share; empty for other keys."""
    for schema in (a for s in schemas for a in _alternatives(s)):
        kinds = schema.get("type", ())
        if "number" in kinds and "string" in kinds and schema.get("examples"):
            read = quantities.quantity(str(schema["examples"][0]))
            return "B" if read is None or read.dimension == "segments" else read.dimension
    return ""


def _value(value: object, path: tuple[str, ...], schemas: Sequence[Schema]) -> str:
    """A value as TOML."""
    if isinstance(value, (str, PathLike)):
        return _quoted(str(fspath(value)))
    if own_schemes.is_scheme(value):
        return _quoted(own_schemes.name_of(value))  # type: ignore[arg-type]
    if isinstance(value, bool) or type(value).__name__ == "bool":
        if _quantity(schemas):
            raise InputError(f"{_name(path)} must be a number or a text, found {value}")
        return "true" if value else "false"
    if isinstance(value, timedelta):
        return _quoted(f"{_plain(Decimal(value // timedelta(microseconds=1)).scaleb(-6))} s")
    if isinstance(value, Real):
        return _number(value, path, schemas)
    if isinstance(value, Mapping):
        return _table(value, path, schemas)
    if isinstance(value, (list, tuple, range)) or hasattr(value, "tolist"):
        items = _listed(_name(path), value)
        below = _below(schemas, None)
        return "[" + ", ".join(_value(v, path, below) for v in items) + "]"
    raise InputError(
        f"{_name(path)}: a scenario has texts, numbers, true, false, lists and dictionaries,"
        f" found {value!r}"
    )


def seconds(value: Time, what: str) -> float:
    """The seconds of a time; raises `InputError`, which names it by `what`."""
    return quantities.seconds(value_text("duration", value), what)


def _table(table: Mapping[str, Any], path: tuple[str, ...], schemas: Sequence[Schema]) -> str:
    parts = []
    for name, value in table.items():
        if value is None:
            continue
        if path in _AXES:
            texts = [] if isinstance(value, str) else axis_texts(str(name), value)
            text = "[" + ", ".join(map(_quoted, texts)) + "]" if texts else _quoted(value)
        elif path in _POINTS or (path[:2] == _NEEDS and len(path) == 3):
            text = _quoted(value_text(str(name), value))
        else:
            text = _value(value, (*path, str(name)), _below(schemas, str(name)))
        parts.append(f"{_key(name)} = {text}")
    return "{ " + ", ".join(parts) + " }" if parts else "{}"


def _number(value: Real, path: tuple[str, ...], schemas: Sequence[Schema]) -> str:
    """A number with the base unit of its key; raises `InputError` if it is ambiguous."""
    name, dimension = _name(path), _quantity(schemas)
    number = int(value) if isinstance(value, Integral) else float(value)
    if not math.isfinite(number):
        raise InputError(f"{name} must be a finite number, found {number}")
    exact = Decimal(repr(number))
    if number == 0 and dimension in ("s", "bit/s"):
        return _quoted("0 s" if dimension == "s" else "0 bps")
    if dimension == "":
        return repr(number)
    if dimension == "share":
        if number >= 1:
            raise InputError(
                f"{name} = {number:g} is ambiguous: a number is a share below 1 (0.01 is 1 %);"
                f' write "{number:g} %"' + (' or "100 %"' if number == 1 else "")
            )
        return _quoted(f"{_plain(exact.scaleb(2))} %")
    if dimension == "packets":
        raise InputError(
            f'{name} = {number:g} is ambiguous: write "{number:g} packets" or "{number:g} B"'
        )
    if dimension == "B":
        if number != int(number):
            raise InputError(f"{name} must be a whole number of bytes, found {number}")
        return _quoted(f"{int(number)} B")
    if dimension == "bit/s":
        if 0 < number < _LOWEST_RATE:
            raise InputError(
                f"{name} = {number:g} is ambiguous: a number is in bit/s (2e6 is 2 Mbit/s);"
                f' write "{number:g} Mbps" or "{number:g} bps"'
            )
        return _quoted(_scaled(exact, _RATES, "bps"))
    if path[-1] in _DELAYS and number >= _LONGEST_DELAY_S:
        raise InputError(
            f"{name} = {number:g} is ambiguous: a number is in seconds (0.04 is 40 ms);"
            f' write "{number:g} ms" or "{number:g} s"'
        )
    return _quoted(_scaled(exact, _TIMES, "ns", 9))


def _scaled(x: Decimal, units: Sequence[tuple[str, int]], base: str, digits: int = 0) -> str:
    """A number in the largest unit in which it is not below 1."""
    for unit, shift in units:
        if abs(x.scaleb(shift)) >= 1:
            return f"{_plain(x.scaleb(shift))} {unit}"
    return f"{_plain(x.scaleb(digits))} {base}"


def _plain(x: Decimal) -> str:
    """A number without exponent and without zeros at its end."""
    return f"{x.normalize():f}" if x else "0"


def _name(path: Sequence[str]) -> str:
    return ".".join(path)


def _key(name: object) -> str:
    if not isinstance(name, str):
        raise InputError(f"the keys of a scenario are texts, found {name!r}")
    return name if _BARE_KEY.fullmatch(name) else _quoted(name)


def _quoted(text: str) -> str:
    """A text as a basic string of TOML, which escapes as JSON does, and DEL."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


__all__ = [
    "ScenarioDict",
    "Settings",
    "Time",
    "axis_texts",
    "flow_options",
    "last_hop_texts",
    "scenario_text",
    "seconds",
    "setting_pairs",
    "value_text",
    "with_options",
]
