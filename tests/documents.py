"""JSON documents against the schemas that `lasthop schema` prints."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from lasthop.analysis import schemas


def closed(schema: Any) -> Any:
    """The schema, with objects that have no keys but those it lists.

    A published schema allows further keys, because a version may get new ones. Here each key that a
    command prints must be in the schema, so that both are the same list.
    """
    if isinstance(schema, list):
        return [closed(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: closed(part) for key, part in schema.items()}
    if isinstance(schema.get("properties"), dict) and "type" in schema:
        found.setdefault("additionalProperties", False)
    return found


@cache
def _validator(name: str) -> Any:
    # test_schemas.py checks the schemas themselves, which takes seconds for each.
    return pytest.importorskip("jsonschema").Draft202012Validator(closed(schemas.schema(name)))


def validate(name: str, document: Any) -> None:
    """Fails if the document does not have the schema with this name, or keys that it lacks."""
    _validator(name).validate(document)
