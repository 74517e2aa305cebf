"""The command `lasthop`.

Exit status: 0 success, 1 failed check, 2 wrong usage or input, 130 interrupt.
"""

from __future__ import annotations

import atexit
import codecs
import gc
import io
import os
import sys
import threading
import time

from lasthop.cli import commands, plain_reader
from lasthop.errors import Abandoned, CheckFailed, InputError, Interrupted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from lasthop.cli.options import Options

DONE, CHECK_FAILED, WRONG_INPUT, INTERRUPTED = 0, 1, 2, 130
# New objects after which Python looks for garbage; its default is 700.
GARBAGE_OBJECTS = 100_000
# Replacements for terminals whose character set lacks these characters.
ASCII = {
    "±": "+-",
    "→": "->",
    "–": "-",
    "µ": "u",
    "…": "...",
    "×": "x",
    "≥": ">=",
    "≤": "<=",
    "’": "'",
}


def run() -> None:
    """The program `lasthop`: one command, then exit.

    The interpreter would take matplotlib and polars apart object by object, a tenth of a second.
    What is registered for the exit is still done, and threads that must end are waited for.
    """
    status = main()
    if threading.active_count() > 1:
        sys.exit(status)
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        sys.exit(status)  # the interpreter says what could not be written
    os._exit(status)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status."""
    words = list(sys.argv[1:] if argv is None else argv)
    # The arrays are small; idle BLAS threads would spin on the cores that simulate.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    _open_streams()
    status = DONE
    try:
        try:
            status = _carry_out(words)
        finally:
            # Also after --help, with which argparse exits.
            sys.stdout.flush()
    except BrokenPipeError:
        # The reader of the output (head, less) has exited, which is no error.
        _discard_output()
    except OSError as error:
        # The disk is full. If that was so before the end, the command has said it.
        if status == DONE:
            status = _print_error(error.strerror or str(error), WRONG_INPUT)
        _discard_output()
    return status


def _discard_output() -> None:
    """Discard what is left to be written, of which Python would say at exit that it cannot."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _carry_out(words: list[str]) -> int:
    """Run one command; returns the exit status, and raises only `BrokenPipeError`."""
    try:
        started = time.monotonic()
        options = plain_reader.read(words) or _parse(words)
        options.started = started
        if options.version:
            from lasthop import _native

            print(f"lasthop {_native.version()}")
            return DONE
        if options.completion is not None:
            from lasthop.cli import completion

            print(completion.script(options.completion), end="")
            return DONE
        if options.command is None:
            from lasthop.cli import arguments

            arguments.parser().print_help()
            return WRONG_INPUT
        return _call(options, ["lasthop", *words])
    except InputError as error:
        return _print_error(error, WRONG_INPUT)
    except CheckFailed as error:
        return _print_error(error, CHECK_FAILED)
    except (KeyboardInterrupt, Interrupted) as error:
        status = _print_error(f"interrupted; {error}" if str(error) else "interrupted", INTERRUPTED)
        if isinstance(error, Abandoned):
            # A thread still runs a rule that does not return; the interpreter would wait for it.
            sys.stdout.flush()
            os._exit(status)
        return status
    except BrokenPipeError:
        raise
    except UnicodeEncodeError as error:
        # An argument is not valid UTF-8. File names may be, other text may not.
        return _print_error(f"not text in UTF-8: {error.object[:200]!a}", WRONG_INPUT)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return _print_error(f"{where}{error.strerror or error}", WRONG_INPUT)


def _parse(words: list[str]) -> Options:
    from lasthop.cli import arguments

    return arguments.parse(words)


def _call(options: Options, words: list[str]) -> int:
    """Carry out the command, with the progress that its options ask for."""
    before = gc.get_threshold()
    # Importing large packages makes many objects, and no garbage.
    gc.set_threshold(GARBAGE_OBJECTS, *before[1:])
    try:
        if not hasattr(options, "progress"):
            return commands.call(options, words)
        from lasthop import progress

        with progress.shown(options.progress, options.quiet):
            return commands.call(options, words)
    finally:
        gc.set_threshold(*before)


def _open_streams() -> None:
    """Replace closed output streams; write characters that stdout cannot encode as ASCII."""
    sys.stdout = sys.stdout or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    codecs.register_error("lasthop", _in_ascii)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="lasthop")


def _in_ascii(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(ASCII.get(c, "?") for c in error.object[error.start : error.end]), error.end


def _print_error(what: object, status: int) -> int:
    print(f"lasthop: {what}", file=sys.stderr)
    return status


if __name__ == "__main__":
    run()
