"""Pages of docs of which a program writes a part: a block between two lines, of which the first
says its name and the command that writes it.

    <!-- bench: made by `make bench`; do not edit -->

    <!-- end of bench -->
"""

from __future__ import annotations

import re

#: The first line of any block.
BEGIN = re.compile(r"^<!-- ([^:>]+): made by `([^`\n]+)`; do not edit -->$", re.MULTILINE)


def _parts(page: str, name: str) -> tuple[str, str, str]:
    """What stands before, in and after the block, whose first and last lines are not in it."""
    begins = [match.end() for match in BEGIN.finditer(page) if match[1] == name]
    ends = [match.start() for match in re.finditer(rf"(?m)^<!-- end of {name} -->$", page)]
    if len(begins) != 1 or len(ends) != 1 or begins > ends:
        raise SystemExit(f"the page must have one block {name}: its first and its last line")
    (begin,), (end,) = begins, ends
    return page[:begin], page[begin:end], page[end:]


def replaced(page: str, name: str, written: str) -> str:
    """The page with this in the block of a name, a blank line before and after it."""
    before, _, after = _parts(page, name)
    return f"{before}\n\n{written.strip()}\n\n{after}"


def written(page: str, name: str) -> str:
    """What stands in the block of a name."""
    return _parts(page, name)[1].strip()


__all__ = ["BEGIN", "replaced", "written"]
