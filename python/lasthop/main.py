"""The command `lasthop`: exit status 0 done, 1 a check failed, 2 wrong usage or input, 130 interrupted."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from lasthop import arguments
from lasthop.errors import CheckFailed, InputError, Interrupted

DONE, CHECK_FAILED, WRONG_INPUT, INTERRUPTED = 0, 1, 2, 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status."""
    words = list(sys.argv[1:] if argv is None else argv)
    # What numpy computes here is small, and its threads would spin on the processors that simulate.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        options = arguments.parse(words)
        if options.version:
            from lasthop import _native

            print(f"lasthop {_native.version()}")
            return DONE
        if options.command is None:
            arguments.parser().print_help()
            return WRONG_INPUT
        from lasthop import commands

        status = commands.COMMANDS[options.command](options, ["lasthop", *words])
        sys.stdout.flush()
        return status
    except InputError as error:
        return _say(error, WRONG_INPUT)
    except CheckFailed as error:
        return _say(error, CHECK_FAILED)
    except (KeyboardInterrupt, Interrupted):
        return _say("interrupted", INTERRUPTED)
    except BrokenPipeError:
        # Whoever read our output (head, less) has gone; not an error. Keep Python from complaining at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return _say(f"{where}{error.strerror or error}", WRONG_INPUT)


def _say(what: object, status: int) -> int:
    print(f"lasthop: {what}", file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main())
