"""JSON Schemas of `lasthop trace fit --json` and `lasthop advise --json`, without their heads."""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]

_TEXT: Schema = {"type": "string"}
_TEXTS: Schema = {"type": "array", "items": _TEXT}
_NUMBER: Schema = {"type": "number"}
_SHARE: Schema = {"type": "number", "minimum": 0, "maximum": 1}
_COUNT: Schema = {"type": "integer", "minimum": 0}
_FLAG: Schema = {"type": "boolean"}


def _object(properties: Schema) -> Schema:
    return {"type": "object", "required": list(properties), "properties": properties}


def _list(properties: Schema, about: str) -> Schema:
    return {"type": "array", "description": about, "items": _object(properties)}


def _or_null(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


def parameters() -> Schema:
    """The keys that describe a fit."""
    estimate = {
        "name": _TEXT,
        "unit": {"enum": ["s", "bit/s", "B", "share", ""]},
        **dict.fromkeys(("value", "low", "high"), _NUMBER),
        "n": _COUNT,
        **dict.fromkeys(("of", "how"), _TEXT),
        "is_range": {**_FLAG, "description": "the data do not tell: possible values"},
    }
    p = _or_null(_SHARE)
    return {
        "direction": {"enum": ["down", "up"]},
        "busy_share": {**_SHARE, "description": "share of the time in which packets waited"},
        "capacity_is_constant": _FLAG,
        "parameters": _list(estimate, "values with their 90 % intervals"),
        "loss_process": _object({"text": _TEXT, "p": p}),
        "jumps": _object({"text": _TEXT, "period_s": _or_null(_NUMBER), "p": p}),
    }


def fit() -> Schema:
    """The keys of `trace fit`."""
    compared = {
        **dict.fromkeys(("name", "unit"), _TEXT),
        **dict.fromkeys(("measured", "simulated", "low", "high"), _NUMBER),
        "runs": _COUNT,
    }
    repeated = _list(compared, "the measurement beside runs of the fitted scenario")
    written = {**_TEXTS, "description": "files that the command wrote"}
    return {"lasthop": _TEXT, **parameters(), "repeated": repeated, "written": written}


def advice() -> Schema:
    """The keys of `advise`."""
    spread = {"type": "array", "items": _NUMBER, "minItems": 3, "maxItems": 3}
    option = {
        "scheme": _TEXT,
        **dict.fromkeys(("changes", "warnings"), _TEXTS),
        **{"goodput": spread, "delay": spread, "competitor": _or_null(spread)},
        **{"reads_tcp": _FLAG, "draws": _COUNT},
    }
    return {
        **dict.fromkeys(("lasthop", "can", "text"), _TEXT),
        "verdict": {"enum": ["helps", "nothing helps", "cannot tell"]},
        "options": _list(option, "shares: median, 5th and 95th percentile"),
        **dict.fromkeys(("narrows", "measurement"), _or_null(_TEXT)),
        "fit": _object(parameters()),
    }


__all__ = ["advice", "fit", "parameters"]
