"""Real outputs against the JSON Schemas that `lasthop schema` prints."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lasthop.analysis import schemas
from lasthop.cli import schema as command
from lasthop.cli.main import main

jsonschema = pytest.importorskip("jsonschema")

HOP = ["--rate", "2Mbps", "--rtt", "40ms", "--loss", "1%", "--set", "duration=1s"]
WEB = """
duration = "5 s"
[last_hop]
rate = "2 Mbps"
rtt = "40 ms"
loss = "1 %"
[[flow]]
name = "bulk"
from = "server"
to = "phone"
[[flow]]
name = "files"
from = "server"
to = "phone"
app = { kind = "transfer", size = "20 kB" }
count = 2
"""


def validate(name: str, document: Any) -> None:
    schema = schemas.schema(name)
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.Draft202012Validator(schema).validate(document)


def printed(capsys: pytest.CaptureFixture[str], *words: str, status: int = 0) -> Any:
    assert main(list(words)) == status
    return json.loads(capsys.readouterr().out)


def test_all_documents_have_a_schema(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.NAMES == schemas.NAMES
    for name in schemas.NAMES:
        found = printed(capsys, "schema", name)
        jsonschema.Draft202012Validator.check_schema(found)
        assert found == schemas.schema(name)


@pytest.mark.parametrize("scheme", ["cubic", "snoop", "i-tcp", "veno", "ll-elsn", "reno"])
def test_runs(scheme: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = printed(capsys, "run", *HOP, "--scheme", scheme, "--json")
    validate("run", found)
    assert found["assumed"]


def test_flows_of_several_kinds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "web.toml"
    file.write_text(WEB)
    validate("run", printed(capsys, "run", str(file), "--json"))
    words = ("compare", str(file), "--schemes", "reno,snoop", "--seeds", "3", "--json")
    found = printed(capsys, *words)
    validate("compare", found)
    assert found["failed"] == []
    assert found["command"] == f"lasthop {' '.join(words)}"


def test_comparisons_with_deterministic_cases(capsys: pytest.CaptureFixture[str]) -> None:
    words = [*HOP, "--schemes", "reno,snoop", "--seeds", "4", "--vary", "last_hop.loss=0%,1%"]
    validate("compare", printed(capsys, "compare", *words, "--json"))


def test_sweeps_and_checks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [*HOP, "--schemes", "reno,snoop", "--seeds", "3"]
    found = printed(capsys, "sweep", *words, "--out", str(tmp_path / "o"), "--json")
    validate("sweep", found)
    shard = printed(capsys, "merge", str(tmp_path / "o"), "--out", str(tmp_path / "m"), "--json")
    validate("sweep", shard)
    base = str(tmp_path / "b.json")
    assert main(["check", base, "--update", *words]) == 0
    capsys.readouterr()
    validate("check", printed(capsys, "check", base, "--json"))


def test_figures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("reproduce", "zeng2006/fig15", "--seeds", "2", "--out", str(tmp_path), "--json")
    validate("reproduce", printed(capsys, *words))


def test_a_schema_refuses_other_documents(capsys: pytest.CaptureFixture[str]) -> None:
    found = printed(capsys, "run", *HOP, "--scheme", "reno", "--json")
    found["flows"][0]["goodput_bps"] = "fast"
    with pytest.raises(jsonschema.ValidationError):
        validate("run", found)
    with pytest.raises(jsonschema.ValidationError):
        validate("compare", {**found, "schema_version": 2})
