"""The generated pages of the docs site: the command line, scenario keys, profiles and JSON outputs.

Each function returns Markdown (MyST), made from the parser, a JSON Schema or the scenarios that
lasthop fills in. `tools/docs_site.py` writes the pages.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import profile_table

import lasthop
from lasthop.analysis import schemas
from lasthop.cli import arguments
from lasthop.cli.command_tree import Command, Group, Option

Schema = Mapping[str, Any]

ROOT_NAME = "file"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [
        "| " + " | ".join(header) + " |",
        "| " + " | ".join("---" for _ in header) + " |",
        *("| " + " | ".join(map(_cell, row)) + " |" for row in rows),
        "",
    ]


# Help texts are plain text: these characters would be Markdown.
_PLAIN = re.compile(r"([*_<>\[\]$~\\`|])")


def _plain(text: str) -> str:
    return _PLAIN.sub(r"\\\1", text)


def command_pages() -> dict[str, str]:
    """A page per command, by name; the page of `lasthop` alone has the name "lasthop"."""
    return {command.name or "lasthop": _command_page(command) for command in arguments.tree()}


def _command_page(command: Command) -> str:
    name = f"lasthop {command.name}".rstrip()
    lines = [f"# `{name}`" if command.name else "# `lasthop`", "", _plain(command.about), ""]
    lines += ["```text", *_wrapped(command.usage), "```", ""]
    for group in command.groups:
        lines += [f"## {_group_title(group)}", ""]
        lines += [_plain(group.about[0].upper() + group.about[1:]) + ".", ""] if group.about else []
        lines += _table(
            ("option" if group.options[0].flags else "argument", "meaning"),
            [(_written(option), _plain(option.help)) for option in group.options],
        )
    if command.examples:
        lines += ["## Examples", "", "```sh", *command.examples, "```", ""]
    return "\n".join(lines)


def _group_title(group: Group) -> str:
    title = group.title.removeprefix("positional ")
    return title[0].upper() + title[1:]


def _written(option: Option) -> str:
    value = option.value
    if not option.flags:
        return f"`{value}`"
    shown = f"[{value}]" if value and option.optional else value
    return ", ".join(f"`{flag} {shown}`" if shown else f"`{flag}`" for flag in option.flags)


def _wrapped(usage: str) -> Iterator[str]:
    """The usage in lines of 90 columns, broken between options."""
    line = ""
    for part in re.findall(r"\[[^\[\]]*(?:\[[^\]]*\][^\[\]]*)*\]|\S+", usage):
        if line and len(line) + len(part) > 90:
            yield line
            line = "    "
        line += part if not line.strip() else f" {part}"
    yield line


# JSON Schemas


class _Reader:
    """Writes a JSON Schema as Markdown: a section per definition, with a table of its keys."""

    def __init__(self, schema: Schema, prefix: str) -> None:
        self._schema = schema
        self._definitions: Mapping[str, Schema] = schema.get("$defs", {})
        self._prefix = prefix

    def anchor(self, name: str) -> str:
        return f"{self._prefix}-{name.lower()}"

    def sections(self) -> list[str]:
        lines = []
        for name, definition in self._definitions.items():
            lines += [f"({self.anchor(name)})=", f"## {_heading(name)}", ""]
            lines += self._used_by(name)
            lines += self.body(definition)
        return lines

    def _used_by(self, name: str) -> list[str]:
        places = []
        for owner, definition in [(ROOT_NAME, self._schema), *self._definitions.items()]:
            keys = [key for key, value in _keys(definition) if name in set(_references(value))]
            place = "top level" if owner == ROOT_NAME else self._link(owner)
            if keys:
                listed = ", ".join(f"`{key}`" for key in dict.fromkeys(keys))
                places.append(f"{listed} of {place}")
            elif owner != ROOT_NAME and name in set(_references(definition)):
                places.append(place)
        return [f"Used by: {'; '.join(places)}.", ""] if places else []

    def _link(self, name: str) -> str:
        return f"[{_heading(name)}](#{self.anchor(name)})"

    def body(self, definition: Schema) -> list[str]:
        """The description of a schema, its keys and its alternatives."""
        lines = [_text(definition), ""] if "description" in definition else []
        if "properties" in definition:
            required = set(definition.get("required", ()))
            rows = [
                (f"`{key}`", self.type_of(value), self._meaning(value, key in required))
                for key, value in definition["properties"].items()
            ]
            lines += _table(("key", "type", "meaning"), rows)
        for alternative in _alternatives(definition):
            lines += self._alternative(alternative)
        if "pattern" in definition:
            lines += ["Text of this form:", "", "```text", definition["pattern"], "```", ""]
        return lines

    def _alternative(self, schema: Schema) -> list[str]:
        if schema.get("type") == "null":
            return []
        tag = next(
            (f"`{k} = {json.dumps(v['const'])}`" for k, v in _keys(schema) if "const" in v), ""
        )
        if not tag:
            tag = self.type_of(schema)
        about = f": {_text(schema)}" if "description" in schema else ""
        lines = [f"* {tag}{about}", ""]
        rest = {k: v for k, v in schema.get("properties", {}).items() if "const" not in v}
        if rest:
            inner = self.body({"properties": rest, "required": schema.get("required", ())})
            lines += [f"  {line}" if line else "" for line in inner]
        return lines

    def _meaning(self, value: Schema, required: bool) -> str:
        text = _text(value)
        if required:
            text = f"**Required.** {text}"
        elif value.get("default") not in (None, {}, []) and "Default" not in text:
            text += f" Default: `{json.dumps(value['default'], ensure_ascii=False)}`."
        return text

    def type_of(self, value: Schema) -> str:
        """The type of a value in words."""
        if "$ref" in value:
            return self._link(value["$ref"].rsplit("/", 1)[1])
        if "const" in value:
            return f"`{json.dumps(value['const'])}`"
        if "enum" in value:
            return ", ".join(f"`{json.dumps(v)}`" for v in value["enum"] if v is not None)
        alternatives = _alternatives(value)
        if alternatives:
            types = [self.type_of(a) for a in alternatives if a.get("type") != "null"]
            return " or ".join(dict.fromkeys(types))
        named = value.get("type", "any")
        names = [named] if isinstance(named, str) else [n for n in named if n != "null"]
        if names == ["array"] and isinstance(value.get("items"), Mapping):
            return f"list of {self.type_of(value['items'])}"
        if names == ["string", "number"]:
            example = value.get("examples", [""])[0]
            return f'quantity, such as `"{example}"`' if example else "quantity"
        words = {"object": "table", "string": "text", "boolean": "true or false", "array": "list"}
        return " or ".join(words.get(name, name) for name in names)


def _keys(schema: Schema) -> Iterator[tuple[str, Schema]]:
    yield from schema.get("properties", {}).items()
    for alternative in _alternatives(schema):
        yield from alternative.get("properties", {}).items()


def _alternatives(schema: Schema) -> list[Schema]:
    return [*schema.get("oneOf", ()), *schema.get("anyOf", ())]


def _references(value: Any) -> Iterator[str]:
    """Names of the definitions to which a value refers, without those inside its keys."""
    if isinstance(value, Mapping):
        if "$ref" in value:
            yield value["$ref"].rsplit("/", 1)[1]
        for key, inner in value.items():
            if key not in ("properties", "$defs"):
                yield from _references(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _references(inner)


def _heading(name: str) -> str:
    """`ReceiveWindowForm` as "Receive window form", `LinkSpec` as "Link"."""
    words = re.findall(r"[A-Z]+(?![a-z])|[A-Z][a-z]*", name.removesuffix("Spec"))
    words = [w.upper() if w in ("Tcp", "Rtt", "Rto", "Ecn", "Mac", "Arq") else w for w in words]
    return " ".join([words[0], *(w if w.isupper() else w.lower() for w in words[1:])])


def _text(schema: Schema) -> str:
    return " ".join(schema.get("description", "").split())


def scenario_page() -> str:
    """All keys of a scenario file, from its JSON Schema."""
    schema = lasthop.schema()
    reader = _Reader(schema, "scenario")
    body = {k: v for k, v in schema.items() if k != "description"}
    lines = [
        "# Scenario keys",
        "",
        "All keys of a scenario file, from the JSON Schema that `lasthop schema scenario` prints.",
        "[The scenario page](../docs/scenario.md) explains them with examples. Settings of schemes",
        "are on [the pages of the schemes](../docs/schemes/README.md).",
        "",
        "## Top level",
        "",
        *reader.body(body),
        *reader.sections(),
    ]
    return "\n".join(lines)


def profile_page() -> str:
    """The values of every profile."""
    return "\n".join(
        [
            "# Profiles",
            "",
            "The values that `[tcp]` has in each profile, from scenarios that name nothing else.",
            "Marks show older versions of ns-2 where they differ from ns-2.35: ³⁰ for 2.30, ²⁷",
            "for 2.27, ²⁶ for 2.26.",
            "",
            profile_table.table(),
            "",
        ]
    )


def json_pages() -> dict[str, str]:
    """A page per JSON output, by the name that `lasthop schema` takes."""
    return {name: _json_page(name) for name in schemas.NAMES if name != "scenario"}


def _json_page(name: str) -> str:
    schema = schemas.schema(name)
    command = "check --update" if name == "baseline" else name
    lines = [
        f"# JSON of `lasthop {command}`",
        "",
        f"What `lasthop {command} --json` prints, from the JSON Schema that",
        f"`lasthop schema {name}` prints. {{download}}`Schema of {name} <schemas/{name}.json>`",
        "",
    ]
    pending: list[tuple[str, Schema]] = [("", schema)]
    if "items" in schema:
        pending = [("[]", schema["items"])]
    while pending:
        path, part = pending.pop(0)
        lines += [f"## {'Top level' if not path else f'`{path}`'}", ""]
        lines += [_text(part), ""] if path and "description" in part else []
        rows, inner = [], []
        required = set(part.get("required", ()))
        for key, value in part["properties"].items():
            shape, tables = _shape(value)
            rows.append((f"`{key}`", shape, _text(value), "yes" if key in required else "no"))
            inner += [(f"{path}.{key}{suffix}".lstrip("."), t) for suffix, t in tables]
        lines += _table(("key", "type", "meaning", "always"), rows)
        pending = inner + pending
    return "\n".join(lines)


def _shape(value: Schema) -> tuple[str, list[tuple[str, Schema]]]:
    """The type of a value in words, and the tables in it with what follows the key."""
    if "const" in value:
        return f"`{json.dumps(value['const'])}`", []
    if "enum" in value:
        return ", ".join(f"`{json.dumps(v)}`" for v in value["enum"]), []
    alternatives = _alternatives(value)
    if alternatives:
        shapes = [_shape(a) for a in alternatives]
        return " or ".join(s for s, _ in shapes), [t for _, found in shapes for t in found]
    kind = value.get("type", "any")
    kinds = [kind] if isinstance(kind, str) else list(kind)
    if kinds == ["array"]:
        shape, tables = _shape(value.get("items", {}))
        length = value.get("minItems")
        count = f"{length} x " if length and length == value.get("maxItems") else ""
        return f"list of {count}{shape}", [(f"[]{suffix}", t) for suffix, t in tables]
    if kinds == ["object"]:
        return "object", [("", value)] if "properties" in value else []
    return " or ".join(kinds), []
