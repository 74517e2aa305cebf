"""JSON Schemas of `lasthop trace fit --json` and `lasthop advise --json`, without their heads."""

from __future__ import annotations

from lasthop.analysis.schema_parts import (
    COUNT,
    FLAG,
    NUMBER,
    POSITIVE,
    TEXT,
    TEXTS,
    Schema,
    list_of,
    object_of,
    or_null,
)

_SHARE: Schema = {**POSITIVE, "maximum": 1}


def parameters() -> Schema:
    """The keys that describe a fit."""
    estimate = {
        "name": TEXT,
        "unit": {"enum": ["s", "bit/s", "B", "share", ""]},
        **dict.fromkeys(("value", "low", "high"), NUMBER),
        "n": COUNT,
        **dict.fromkeys(("of", "how"), TEXT),
        "note": {**TEXT, "description": "what limits the trust in it; empty if nothing is known"},
        "is_range": {**FLAG, "description": "the data do not tell: possible values"},
    }
    p = or_null(_SHARE)
    return {
        "direction": {"enum": ["down", "up"]},
        "busy_share": {**_SHARE, "description": "share of the time in which packets waited"},
        "capacity_is_constant": FLAG,
        "parameters": list_of(object_of(estimate), "values with their 90 % intervals"),
        "loss_process": object_of({"text": TEXT, "p": p}),
        "jumps": object_of({"text": TEXT, "period_s": or_null(NUMBER), "p": p}),
    }


def fit() -> Schema:
    """The keys of `trace fit`."""
    compared = {
        **dict.fromkeys(("name", "unit"), TEXT),
        **dict.fromkeys(("measured", "simulated", "low", "high"), NUMBER),
        "runs": COUNT,
    }
    repeated = list_of(object_of(compared), "the measurement beside runs of the fitted scenario")
    written = {**TEXTS, "description": "files that the command wrote"}
    return {"lasthop": TEXT, **parameters(), "repeated": repeated, "written": written}


def advice() -> Schema:
    """The keys of `advise`."""
    spread = {"type": "array", "items": NUMBER, "minItems": 3, "maxItems": 3}
    option = {
        "scheme": TEXT,
        **dict.fromkeys(("changes", "warnings"), TEXTS),
        **{"gain": spread, "goodput": spread, "delay": spread, "competitor": or_null(spread)},
        **{"reads_tcp": FLAG, "draws": COUNT},
    }
    return {
        **dict.fromkeys(("lasthop", "can", "text"), TEXT),
        "verdict": {"enum": ["helps", "nothing helps", "cannot tell"]},
        "options": list_of(object_of(option), "shares: median, 5th and 95th percentile"),
        **dict.fromkeys(("narrows", "measurement", "scheme"), or_null(TEXT)),
        "candidates": {**TEXTS, "description": "schemes of which one is the best"},
        "traffic": object_of(dict.fromkeys(("kind", "text", "gain"), TEXT)),
        "fit": object_of(parameters()),
    }


__all__ = ["advice", "fit", "parameters"]
