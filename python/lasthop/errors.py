"""The errors that lasthop raises on purpose."""

from __future__ import annotations

from pathlib import Path


class InputError(ValueError):
    """Wrong usage or input: a file, an option, a value. The message is complete and meant for people."""


class Interrupted(Exception):
    """A run ended early because it was cancelled; nothing of it is kept."""


class Abandoned(KeyboardInterrupt):
    """A second interrupt ended the work while threads were still running; only the end of the process stops those."""


class CheckFailed(Exception):
    """A check of the simulator's own verifier failed: the result of that run must not be used."""


def traceback_outside(error: BaseException) -> str | None:
    """The traceback of `error` from its first frame outside lasthop on; `None` if it has no such frame."""
    import traceback

    package = Path(__file__).parent
    frames = error.__traceback__
    while frames is not None and package in Path(frames.tb_frame.f_code.co_filename).parents:
        frames = frames.tb_next
    return "".join(traceback.format_exception(type(error), error, frames)) if frames is not None else None
