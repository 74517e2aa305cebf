"""`lasthop new`: the files run, their tests pass, and nothing is overwritten."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
from processes import ended

from lasthop.cli import scaffold
from lasthop.cli.main import main
from lasthop.errors import InputError

#: The line length of new files, as in the documentation.
COLUMNS = 100


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("kind", list(scaffold.KINDS))
def test_new_files_run_and_their_tests_pass(
    kind: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["new", kind, "my_own", "--out", "mine", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    file, tests = (folder / name for name in found["written"])
    assert file.suffix == scaffold.KINDS[kind]
    for path in (file, tests):
        lines = path.read_text(encoding="utf-8").splitlines()
        assert "@" not in "".join(x for x in lines if not x.startswith("@pytest"))
        assert max(map(len, lines)) <= COLUMNS
    words = found["next"].split()[1:]
    seeds = ["--seeds", "2"]
    assert main([*words, *seeds, "--set", "duration=5s"]) == 0
    assert ("my_own" in capsys.readouterr().out) or kind == "figure"
    ran = ended(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tests)],
        cwd=folder,
        env={k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")},
    )
    assert ran.returncode == 0, ran.stdout
    assert " passed" in ran.stdout


def test_the_tests_of_a_new_rule_notice_a_broken_rule(folder: Path) -> None:
    file, tests = scaffold.write("window", "broken", folder)
    file.write_text(file.read_text().replace("self.alpha * ack.mss", "0 * ack.mss"))
    file.write_text(file.read_text().replace("self.beta * loss.base", "0.5 * loss.base"))
    ran = ended(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tests)], cwd=folder
    )
    assert ran.returncode == 1
    assert "test_a_setting_changes_the_result" in ran.stdout


def test_an_example_of_the_new_figure_reads(folder: Path) -> None:
    (file, _) = scaffold.write("figure", "mine", folder)
    assert main(["run", str(file), "--set", "duration=1s", "--json"]) == 0


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("My_Rule", "lower-case letters"),
        ("my-rule", "lower-case letters"),
        ("3rule", "lower-case letters"),
        ("rule_", "lower-case letters"),
        ("../rule", "lower-case letters"),
        ("", "lower-case letters"),
        ("for", "a word of Python"),
        ("match", "a word of Python"),
        ("random", "an installed module"),
        ("lasthop", "an installed module"),
        ("numpy", "an installed module"),
        ("test_rule", "taken for tests"),
    ],
)
def test_names_are_checked(folder: Path, name: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        scaffold.write("window", name)
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("existing", ["rule.py", "test_rule.py"])
def test_nothing_is_overwritten(
    folder: Path, existing: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / existing).write_text("mine")
    assert main(["new", "agent", "rule"]) == 2
    assert f"{existing} exists; nothing is written" in capsys.readouterr().err
    assert [p.name for p in folder.iterdir()] == [existing]
    assert (folder / existing).read_text() == "mine"


def test_wrong_kinds_and_folders_are_named(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["new", "rule", "mine"]) == 2
    assert "invalid choice: 'rule'" in capsys.readouterr().err
    (folder / "file").write_text("")
    assert main(["new", "window", "mine", "--out", "file/sub"]) == 2
    assert "file" in capsys.readouterr().err
    with pytest.raises(InputError, match="the kind must be one of window, agent, figure"):
        scaffold.write("plot", "mine")
