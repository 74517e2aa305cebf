"""Parts of JSON Schemas that many documents share."""

from __future__ import annotations

from typing import Any

from lasthop import limits

#: Version of the documents. Keys may be added to a version; none is removed or changes its meaning.
VERSION = 1

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
COUNT: Schema = {"type": "integer", "minimum": 0}
NUMBER: Schema = {"type": "number"}
POSITIVE: Schema = {"type": "number", "minimum": 0}
FLAG: Schema = {"type": "boolean"}
TEXTS: Schema = {"type": "array", "items": TEXT}


def or_null(schema: Schema) -> Schema:
    """The schema of a value that may be unknown."""
    return {"anyOf": [schema, {"type": "null"}]}


def object_of(required: Schema, optional: Schema | None = None, about: str = "") -> Schema:
    """The schema of an object with these keys."""
    found: Schema = {"type": "object", "required": list(required)}
    found["properties"] = {**required, **(optional or {})}
    return {"description": about, **found} if about else found


def list_of(items: Schema, about: str = "") -> Schema:
    """The schema of an array."""
    found: Schema = {"type": "array", "items": items}
    return {"description": about, **found} if about else found


def counts(*keys: str) -> Schema:
    """The schema of an object of counters."""
    return object_of(dict.fromkeys(keys, COUNT))


SPREAD = object_of(
    dict.fromkeys(("mean", "p50", "p95", "p99"), or_null(POSITIVE)),
    about="mean and percentiles, in seconds",
)
INTERVAL = or_null({"type": "array", "items": NUMBER, "minItems": 2, "maxItems": 2})
ERROR: Schema = {"type": "array", "description": "runs that failed", "items": {"type": "object"}}
ASSUMED = {**TEXTS, "description": "assumptions for what the scenario does not specify"}
COMMAND = {**TEXT, "description": "the command that was called"}
ELAPSED = {**POSITIVE, "description": "wall-clock time of the command, in seconds"}
THIS_VERSION: Schema = {"const": VERSION, "description": "version of this schema"}
LIMITED_BY = object_of({key: {**POSITIVE, "maximum": 1} for key in limits.NAMES}, about="shares")
#: What every document ends with.
ABOUT: Schema = {"command": COMMAND, "elapsed_s": ELAPSED}
#: Counters of links with a policer, copies and undetected bit errors.
IMPAIRMENTS = ("dropped_by_policer", "duplicated_frames", "corrupted_frames")
