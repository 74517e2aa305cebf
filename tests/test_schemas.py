"""Real outputs against the JSON Schemas that `lasthop schema` prints."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from documents import validate

from lasthop.analysis import schemas
from lasthop.cli import arguments
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
    update = printed(capsys, "check", base, "--update", *words, "--json")
    validate("baseline", update)
    assert update["assumed"]
    validate("baseline", json.loads(Path(base).read_text(encoding="utf-8")))
    validate("check", printed(capsys, "check", base, "--json"))


def test_figures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("reproduce", "zeng2006/fig15", "--seeds", "2", "--out", str(tmp_path), "--json")
    found = printed(capsys, *words)
    validate("reproduce", found)
    assert isinstance(found["figures"][0]["assumed"], list)
    assert found["figures"][0]["failed"] == []


def test_other_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["run", *HOP, "--scheme", "snoop", "--pcap", "r.pcapng"]) == 0
    capsys.readouterr()
    replayed = ("replay", "r.pcapng", "--interface", "bs-phone", "--mobile", "10.0.0.3")
    for words in (
        ("inspect", *HOP, "--schemes", "reno,snoop", "--json"),
        (*replayed, "--scheme", "snoop", "--out", "o.pcapng", "--json"),
        ("schemes", "--json"),
        ("schemes", "snoop", "--json"),
        ("doctor", "--json"),
        ("new", "window", "mine", "--json"),
    ):
        found = printed(capsys, *words)
        validate(words[0], found)
        if words[0] != "schemes":
            assert found["command"] == f"lasthop {' '.join(words)}"
            assert found["elapsed_s"] >= 0


def test_every_command_with_json_has_a_schema() -> None:
    tree = arguments.tree()
    with_json = {c.name for c in tree if any("--json" in o.flags for o in c.options())}
    # `merge` prints the document of a sweep; `fit` is that of `trace fit`, `validate-all` that of
    # `validate --all`.
    others = {"baseline", "fit", "scenario", "validate-all"}
    assert with_json - {"merge"} == set(schemas.NAMES) - others


def test_progress_as_json_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["compare", *HOP, "--schemes", "reno", "--seeds", "4", "--progress", "json"]
    assert main([*words, "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert {line["event"] for line in lines} == {"progress"}
    assert (lines[-1]["done"], lines[-1]["total"], lines[-1]["left_s"]) == (4, 4, 0)
    for _ in range(2):  # the second one reuses the runs of the first
        assert main([*words, "--out", str(tmp_path / "out"), "--no-figure", "--quiet"]) == 0
        assert capsys.readouterr() == ("", "")
    check = ["check", str(tmp_path / "b.json"), "--quiet"]
    assert main([*check, "--update", *HOP, "--schemes", "reno", "--seeds", "3"]) == 0
    assert main(check) == 0
    assert capsys.readouterr() == ("", "")


def test_a_schema_refuses_other_documents(capsys: pytest.CaptureFixture[str]) -> None:
    found = printed(capsys, "run", *HOP, "--scheme", "reno", "--json")
    found["flows"][0]["goodput_bps"] = "fast"
    with pytest.raises(jsonschema.ValidationError):
        validate("run", found)
    with pytest.raises(jsonschema.ValidationError):
        validate("compare", {**found, "schema_version": 2})
