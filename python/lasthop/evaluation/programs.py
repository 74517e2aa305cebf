"""Candidates that are programs: rules and stacks in Rust that take part in `lasthop evaluate`.

A program answers each line of its standard input, a request in JSON, with a line of JSON
(docs/foreign-stacks.md). The crate lasthop-testbed has the Rust side (`Candidate`). A program does
one request at a time, so each thread starts its own.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lasthop.errors import InputError
from lasthop.experiments.observing import Finished


class LeftOut(Exception):
    """Why a program does not take part in a cell."""


class Program:
    """A program on the command line: PATH or PATH:WORD:…, with words for the program."""

    def __init__(self, text: str) -> None:
        path, *words = text.split(":")
        self.command = [os.path.abspath(path), *words]
        self.label = ":".join([Path(path).name, *words])
        self._mine = threading.local()
        self._started: list[subprocess.Popen[str]] = []

    @staticmethod
    def is_named_by(text: str) -> bool:
        """True for a path with a slash that is not a file of Python."""
        path = text.split(":")[0]
        return "/" in path and not path.endswith(".py")

    def run_seeds(self, scenario: str, seeds: Sequence[int], names: Sequence[str]) -> Finished:
        """The metrics of these runs; raises `LeftOut`, and `InputError` for a wrong program."""
        request = {"scenario": scenario, "seeds": list(seeds), "metrics": list(names)}
        answer = self._ask(json.dumps(request))
        if "left_out" in answer:
            raise LeftOut(str(answer["left_out"]))
        if "error" in answer:
            raise RuntimeError(str(answer["error"]))
        try:
            rows = [[math.nan if x is None else float(x) for x in row] for row in answer["rows"]]
            values = np.array(rows).reshape(len(seeds), len(names))
        except (KeyError, TypeError, ValueError):
            raise self._wrong("its `rows` do not fit the request") from None
        return Finished(values, [None] * len(seeds))

    def close(self) -> None:
        """End the programs that were started."""
        for process in self._started:
            process.kill()
            process.communicate()

    def _ask(self, request: str) -> dict[str, Any]:
        process = self._process()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(request + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except OSError:
            line = ""
        if not line:
            raise self._wrong(f"it ended with status {process.wait()}")
        try:
            answer = json.loads(line)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise self._wrong(f"it answers {line[:60]!r}")
        return answer

    def _process(self) -> subprocess.Popen[str]:
        if not hasattr(self._mine, "process"):
            try:
                self._mine.process = subprocess.Popen(
                    self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
                )
            except OSError as error:
                raise self._wrong(error.strerror or str(error)) from None
            self._started.append(self._mine.process)
        found: subprocess.Popen[str] = self._mine.process
        return found

    def _wrong(self, why: str) -> InputError:
        return InputError(
            f"{self.command[0]} is not a candidate for `lasthop evaluate`: {why}; see"
            " docs/foreign-stacks.md"
        )


__all__ = ["LeftOut", "Program"]
