"""The exceptions of lasthop."""

from __future__ import annotations


class InputError(ValueError):
    """Wrong usage or input: a file, an option or a value. The message is complete."""


class Interrupted(Exception):
    """A run was cancelled; it has no result."""


class Abandoned(KeyboardInterrupt):
    """A second interrupt while threads were still running; only the end of the process stops
    them.
    """


class CheckFailed(Exception):
    """A check of the simulator's verifier failed; the result of that run must not be used."""


def traceback_outside(error: BaseException) -> str | None:
    """Return the traceback of `error` from its first frame outside of lasthop, or `None` without
    one.
    """
    import traceback
    from pathlib import Path

    package = Path(__file__).parent
    frames = error.__traceback__
    while frames is not None and package in Path(frames.tb_frame.f_code.co_filename).parents:
        frames = frames.tb_next
    return (
        "".join(traceback.format_exception(type(error), error, frames))
        if frames is not None
        else None
    )
