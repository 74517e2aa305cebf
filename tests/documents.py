"""JSON documents against the schemas that `lasthop schema` prints."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from lasthop.analysis import schemas


@cache
def _validator(name: str) -> Any:
    # test_schemas.py checks the schemas themselves, which takes seconds for each.
    return pytest.importorskip("jsonschema").Draft202012Validator(schemas.schema(name))


def validate(name: str, document: Any) -> None:
    """Fails if the document does not have the schema with this name."""
    _validator(name).validate(document)
