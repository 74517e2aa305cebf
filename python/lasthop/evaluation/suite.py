"""The suite of `lasthop evaluate`: scenario files with a table [evaluate], in folders of groups.

docs/evaluation.md describes the format. A folder of the same form can be read instead of the one
that lasthop ships.
"""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from lasthop import quantities
from lasthop.analysis import metrics
from lasthop.errors import InputError
from lasthop.scenarios.python_values import scenario_text
from lasthop.scenarios.scenario_source import Source, source
from lasthop.scenarios.table_reader import TableReader, value_text

#: The suite that lasthop ships.
FOLDER: Final = Path(__file__).parents[1] / "data" / "evaluation"

Better = Literal["higher", "lower"]


@dataclass(frozen=True)
class Number:
    """A number of a cell, and what decides whether a scheme passes."""

    name: str
    #: A metric of docs/numbers.md, or a ratio of two: "A / B".
    metric: str
    better: Better
    #: How much worse than the baseline a scheme may be: in the metric's unit, or as a share of the
    #: baseline's mean.
    margin: float = 0.0
    margin_is_share: bool = False
    #: The value that the mean must keep, in place of a comparison with the baseline.
    limit: float | None = None
    #: What an unknown value counts as, such as a transfer that does not complete.
    unknown: float | None = None

    @property
    def parts(self) -> tuple[str, ...]:
        """The metric, or the two metrics of a ratio."""
        return tuple(self.metric.split(metrics.RATIO))


@dataclass(frozen=True)
class CellFile:
    """A scenario file of the suite: one cell, or one for each combination of varied values."""

    #: "GROUP/NAME".
    id: str
    title: str
    source: Source
    numbers: tuple[Number, ...]
    #: Sections of RFC 9743.
    rfc9743: tuple[str, ...]
    #: Numbers of the example test cases of draft-ietf-ccwg-bbr, in their order there.
    bbr: tuple[int, ...]
    vary: Mapping[str, tuple[str, ...]]
    #: Names of the points, if the varied values are no names.
    names: tuple[str, ...]
    #: Settings of --quick.
    quick: Mapping[str, str]


@dataclass(frozen=True)
class Group:
    """A group of cells."""

    id: str
    letter: str
    title: str
    files: tuple[CellFile, ...]


@dataclass(frozen=True)
class Suite:
    """All groups."""

    version: str
    #: Digest of all files.
    sha256: str
    baseline: str
    #: Schemes that are shown beside the candidate and not judged.
    ghosts: tuple[str, ...]
    seeds: int
    quick_seeds: int
    groups: tuple[Group, ...]

    def selected(self, only: Sequence[str] = ()) -> list[tuple[Group, CellFile]]:
        """The files of the groups and cells that `only` names, or all; raises `InputError`."""
        words = {word.lower() for word in only}
        all_files = [(group, file) for group in self.groups for file in group.files]
        named = {w for group, file in all_files for w in _words(group, file)}
        if unknown := [word for word in only if word.lower() not in named]:
            ids = [i for group, file in all_files for i in (group.id, file.id)]
            hint = quantities.did_you_mean(unknown[0], ids)
            raise InputError(
                f"--only: there is no group and no cell `{unknown[0]}`{hint}; there are"
                f" {self._known()}, and cells such as {all_files[0][1].id}"
            )
        return [pair for pair in all_files if not words or words & _words(*pair)]

    def gated(self, words: list[str], only: Sequence[str] = ()) -> list[str]:
        """The groups that these words name, by letter or name, or "all"; raises `InputError` for
        a group of which `only` leaves no cell.
        """
        tried = list(dict.fromkeys(group.id for group, _ in self.selected(only)))
        if words == ["all"]:
            return tried
        by_word = {w.lower(): g.id for g in self.groups for w in (g.letter, g.id)}
        for word in words:
            if word.lower() not in by_word:
                hint = quantities.did_you_mean(word, [g.id for g in self.groups])
                raise InputError(
                    f"--gate: there is no group `{word}`{hint}; there are {self._known()}"
                )
            if by_word[word.lower()] not in tried:
                raise InputError(f"--gate {word}: --only leaves no cell of this group")
        return list(dict.fromkeys(by_word[word.lower()] for word in words))

    def _known(self) -> str:
        return ", ".join(f"{g.letter} or {g.id}" for g in self.groups)


def _words(group: Group, file: CellFile) -> set[str]:
    """What names a file in `only`."""
    return {group.letter.lower(), group.id, file.id}


def read(folder: Path = FOLDER) -> Suite:
    """Read a suite; raises `InputError` for a wrong file."""
    head = folder / "suite.toml"
    reader = TableReader(_table(head), str(head))
    groups = reader.take("groups", {})
    suite = Suite(
        version=reader.text("version"),
        sha256=_digest(folder),
        baseline=reader.text("baseline"),
        ghosts=reader.texts("ghosts"),
        seeds=reader.integer("seeds", 10) or 10,
        quick_seeds=reader.integer("quick_seeds", 5) or 5,
        groups=tuple(_group(folder, id_, about) for id_, about in groups.items()),
    )
    reader.end()
    return suite


def _digest(folder: Path) -> str:
    """Digest of names and contents of all files, in the order of their names."""
    found = hashlib.sha256()
    for path in sorted(folder.rglob("*.toml")):
        name = path.relative_to(folder).as_posix().encode()
        found.update(hashlib.sha256(name + b"\0" + path.read_bytes()).digest())
    return found.hexdigest()


def _table(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: {error}") from None
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from None


def _group(folder: Path, id_: str, about: Any) -> Group:
    reader = TableReader(about, f"{folder / 'suite.toml'}: [groups] {id_}")
    letter, title = reader.text("letter"), reader.text("title")
    reader.end()
    files = tuple(_cell_file(p, f"{id_}/{p.stem}") for p in sorted((folder / id_).glob("*.toml")))
    return Group(id_, letter, title, files)


def _cell_file(path: Path, id_: str) -> CellFile:
    table = _table(path)
    reader = TableReader(table.pop("evaluate", None), f"{path}: [evaluate]")
    vary = reader.take("vary", {})
    bbr = reader.take("bbr", [])
    if not isinstance(bbr, list) or not all(isinstance(n, int) for n in bbr):
        raise reader.wrong("bbr", bbr, "a list of whole numbers")
    numbers = tuple(_number(n, reader.where) for n in reader.take("number", []))
    found = CellFile(
        id=id_,
        title=str(table.get("title", id_)),
        source=_source(table),
        numbers=numbers,
        rfc9743=reader.texts("rfc9743"),
        bbr=tuple(bbr),
        vary={k: tuple(value_text(v) for v in values) for k, values in vary.items()},
        names=reader.texts("names"),
        quick=reader.words("quick"),
    )
    reader.end()
    if not numbers or not found.rfc9743:
        raise InputError(f"{reader.where} needs `rfc9743` and [[evaluate.number]]")
    return found


def _source(table: dict[str, Any]) -> Source:
    """The scenario without [evaluate]; its traces are those that lasthop ships."""
    hop = dict(table.get("last_hop", {}))
    traces = {key: hop.pop(key) for key in ("down", "up") if key in hop}
    text = scenario_text({**table, "last_hop": hop} if traces else table)
    return source(text=text, last_hop=traces, draw_starts=True)


def _number(table: Any, where: str) -> Number:
    reader = TableReader(table, f"{where}: [[evaluate.number]]")
    margin = reader.take("margin")
    limit, unknown = reader.number("limit"), reader.number("unknown")
    if (margin is None) == (limit is None):
        raise InputError(f"{reader.where} needs `margin` or `limit`, not both")
    share = isinstance(margin, str) and margin.strip().endswith("%")
    better: Better = (
        "higher" if reader.text("better", one_of=("higher", "lower")) == "higher" else "lower"
    )
    number = Number(
        name=reader.text("name"),
        metric=reader.text("metric"),
        better=better,
        margin=0.0 if margin is None else quantities.number(margin, f"{reader.where}: `margin`"),
        margin_is_share=share,
        limit=limit,
        unknown=unknown,
    )
    reader.end()
    return number


__all__ = ["FOLDER", "CellFile", "Group", "Number", "Suite", "read"]
