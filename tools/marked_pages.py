"""Pages of docs of which a program writes a part: what stands between two lines."""

from __future__ import annotations


def replaced(page: str, marks: tuple[str, str], written: str) -> str:
    """The page with this between the marks, a blank line before and after it."""
    begin, end = marks
    if any(page.count(f"{mark}\n") != 1 for mark in marks):
        raise SystemExit(f"the page must have the lines {begin} and {end} once each")
    before, rest = page.split(f"{begin}\n")
    after = rest.split(f"{end}\n")[1]
    return f"{before}{begin}\n\n{written.strip()}\n\n{end}\n{after}"


__all__ = ["replaced"]
