"""Schemes of the user: classes in Python, their settings, and their names on the command line."""

from __future__ import annotations

from lasthop.agents import Agent
from lasthop.congestion import CongestionControl
from lasthop.errors import InputError
from lasthop.quantities import did_you_mean, split

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

SchemeClass = type[CongestionControl] | type[Agent]
Scheme = str | SchemeClass

_BASES = (CongestionControl, Agent)
#: Class attributes with a meaning for lasthop; they are no settings.
_RESERVED = {name for base in _BASES for name in vars(base)}
#: Folder in the names of classes without a file, such as those of a notebook.
_SESSION = "/python-session/"
#: Begins the module names of files with schemes.
_MODULE = "lasthop_scheme_"
#: Classes without a file, by the file in their names.
_session: dict[str, SchemeClass] = {}


def is_scheme(found: object) -> bool:
    """True for a subclass of `CongestionControl` or `Agent`."""
    return isinstance(found, type) and issubclass(found, _BASES) and found not in _BASES


def listed(schemes: Sequence[Scheme] | Scheme) -> list[Scheme]:
    """One scheme or several, as a list."""
    return [schemes] if isinstance(schemes, (str, type)) else [*schemes]


def settings_of(scheme: SchemeClass) -> dict[str, bool | int | float | str]:
    """The settings of a class with their values: its public numbers, texts and truth values."""
    found: dict[str, bool | int | float | str] = {}
    for part in reversed(scheme.__mro__):
        if part in (object, *_BASES):
            continue
        for name, value in vars(part).items():
            if not name.startswith("_") and name not in _RESERVED:
                found.pop(name, None)
                if isinstance(value, (bool, int, float, str)):
                    found[name] = value
    return found


def describe(scheme: SchemeClass) -> dict[str, Any]:
    """What the simulator needs to know of a class.

    `kind` ("window" or "agent"), `name`, `label`, `settings` (JSON), and `hooks`, the names of the
    methods that it defines. Raises `InputError` if it is not a scheme.
    """
    if not is_scheme(scheme):
        raise InputError(
            "a scheme must be a name or a subclass of lasthop.CongestionControl or lasthop.Agent,"
            f" found {scheme}"
        )
    base: Any = CongestionControl if issubclass(scheme, CongestionControl) else Agent
    hooks = {
        name
        for name, method in vars(base).items()
        if callable(method) and getattr(scheme, name) is not method
    }
    import json

    _check_methods(scheme, base)
    label = scheme.label or scheme.__name__
    return {
        "kind": "window" if base is CongestionControl else "agent",
        "name": getattr(scheme, "_name", "") or label,
        "label": label,
        "settings": json.dumps(settings_of(scheme)),
        # Without `on_ack`, the method of the base class says that it is missing.
        "hooks": hooks | ({"on_ack"} if base is CongestionControl else set()),
    }


def _check_methods(scheme: SchemeClass, base: type) -> None:
    """Raise `InputError` for methods that are never called, because of their name or a setting."""
    known = [name for name, method in vars(base).items() if callable(method)]
    for name in dir(scheme):
        if name.startswith("on_") and name not in known and callable(getattr(scheme, name)):
            hint = did_you_mean(name, known)
            if hint:
                raise InputError(f"{scheme.__name__}.{name} is never called{hint}")
    gets_events = issubclass(scheme, Agent) and scheme.on_link_event is not Agent.on_link_event
    if gets_events and not getattr(scheme, "link_events", ()):
        raise InputError(
            f"{scheme.__name__}.on_link_event is never called: link_events names no events"
        )


def configure(scheme: SchemeClass, *, label: str = "", **values: object) -> SchemeClass:
    """Return a subclass of `scheme` with other values of its settings.

    `values` are numbers, truth values or texts as on the command line. `label` is the label
    (default: that of `scheme` with the values, such as "Mine:beta=0.9"). Raises `InputError` for an
    unknown setting or a value of the wrong type.
    """
    return _configured(scheme, values, label)


def _configured(
    scheme: SchemeClass, values: Mapping[str, object], label: str, name: str = ""
) -> SchemeClass:
    """A subclass with other values of its settings; `name` is its name in reports."""
    shown = scheme.label or scheme.__name__
    defaults = settings_of(scheme)
    typed: dict[str, Any] = {}
    for key, value in values.items():
        if key not in defaults:
            hint = did_you_mean(key, list(defaults))
            known = f"allowed: {', '.join(defaults)}" if defaults else "it has none"
            raise InputError(f"scheme `{shown}` has no setting `{key}`{hint}; {known}")
        typed[key] = _typed(value, defaults[key], f"scheme `{shown}`: {key}")
    before: Mapping[str, object] = getattr(scheme, "_values", {})
    attributes: dict[str, Any] = {
        **typed,
        "_base": getattr(scheme, "_base", scheme),
        "_values": {**before, **typed},
        "label": label or ":".join([shown, *(f"{k}={_text(v)}" for k, v in typed.items())]),
        "_name": name or getattr(scheme, "_name", "") or shown,
        "__module__": scheme.__module__,
        "__qualname__": scheme.__qualname__,
        "__doc__": scheme.__doc__,
    }
    if hasattr(scheme, "__dataclass_fields__"):
        from functools import partialmethod

        attributes["__init__"] = partialmethod(scheme.__init__, **typed)
    return type(scheme.__name__, (scheme,), attributes)


def _typed(value: object, default: object, what: str) -> object:
    """`value` with the type of the default."""
    if isinstance(default, str):
        return _text(value)
    if isinstance(value, str):
        value = {"true": True, "false": False}.get(value, value)
    if isinstance(default, bool):
        if isinstance(value, bool):
            return value
        raise InputError(f"{what} must be true or false, found {value!r}")
    if isinstance(value, (str, int, float)) and not isinstance(value, bool):
        try:
            number = float(value)
        except ValueError:
            number = float("nan")
        if isinstance(default, float) and number == number:
            return number
        if number.is_integer():
            return int(number)
    kind = "a number" if isinstance(default, float) else "a whole number"
    raise InputError(f"{what} must be {kind}, found {value!r}")


def _text(value: object) -> str:
    """A value as on the command line."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:g}" if isinstance(value, float) else str(value)


def load_scheme(scheme: str) -> str | SchemeClass:
    """Load the class that `FILE.py:CLASS` names, with the settings in `FILE.py:CLASS:KEY=VALUE:…`.

    Return any other text, a name in the catalogue, unchanged. Raises `InputError` if the file, the
    class or a setting does not exist or cannot be loaded.
    """
    file, found, rest = scheme.partition(".py:")
    if not found or "(" in file:
        if scheme.endswith(".py"):
            raise InputError(
                f"{scheme}: which class? Write {scheme}:CLASS, a subclass of"
                " lasthop.CongestionControl or lasthop.Agent"
            )
        return scheme
    name, *given = split(rest, ":")
    values: dict[str, object] = {}
    for part in given:
        key, equals, value = part.partition("=")
        if not equals:
            raise InputError(f"{scheme}: expected KEY=VALUE after the colon, found `{part}`")
        inner = value.strip()
        values[key.strip()] = inner[1:-1] if inner[:1] + inner[-1:] == "()" else inner
    label = str(values.pop("label", ""))
    loaded = _load_class(f"{file}.py", name)
    return _configured(loaded, values, label) if values or label else loaded


def name_of(scheme: str | SchemeClass) -> str:
    """The name of a scheme as in scenario files and on the command line; a name is unchanged.

    A class without a file, such as one of a notebook, gets a name that is valid in this process.
    Raises `InputError` if it is not a scheme.
    """
    if isinstance(scheme, str):
        return scheme
    if not is_scheme(scheme):
        describe(scheme)
    base, values, label = _parts(scheme)
    file = file_of(base)
    if file is None:
        file = next((f for f, known in _session.items() if known is base), "")
        if not file:
            file = f"{_SESSION}{len(_session) + 1}.py"
            _session[file] = base
    texts = {k: repr(v) if isinstance(v, float) else _text(v) for k, v in values.items()}
    found = ":".join([f"{file}:{base.__name__}", *(f"{k}=({v})" for k, v in texts.items())])
    return f"{found}:label=({label})" if label else found


def file_of(scheme: SchemeClass) -> str | None:
    """The file from which `FILE.py:CLASS` loads a class; `None` if there is none."""
    import sys
    from pathlib import Path

    base: SchemeClass = getattr(scheme, "_base", scheme)
    module = sys.modules.get(base.__module__)
    file = getattr(module, "__file__", None)
    if file is None or getattr(module, base.__name__, None) is not base:
        return None
    path = Path(file).resolve()
    return str(path) if path.suffix == ".py" and path.is_file() else None


def _parts(scheme: SchemeClass) -> tuple[SchemeClass, dict[str, object], str]:
    """The class that was configured, its values, and the label if it is not the default."""
    base: SchemeClass = getattr(scheme, "_base", scheme)
    values: dict[str, object] = dict(getattr(scheme, "_values", {}))
    plain = _configured(base, values, "").label if values else base.label
    return base, values, "" if scheme.label == plain else scheme.label


class Reference:
    """A class in a form that can be pickled: its file, or else its module, and its values."""

    def __init__(self, scheme: str | SchemeClass, values: Mapping[str, object], label: str) -> None:
        self.scheme = scheme
        self.values = values
        self.label = label

    @staticmethod
    def to(scheme: str | SchemeClass) -> str | Reference:
        """The reference to a class; a name is unchanged."""
        if isinstance(scheme, str):
            return scheme
        if scheme.__module__.startswith(_MODULE):
            return name_of(scheme)
        return Reference(*_parts(scheme))

    def load(self) -> str | SchemeClass:
        """The class."""
        if isinstance(self.scheme, str) or not (self.values or self.label):
            return self.scheme
        return _configured(self.scheme, self.values, self.label)


def setting_names(scheme: str | SchemeClass) -> set[str]:
    """Names of the settings of a scheme of the catalogue or of a class; empty if it is unknown."""
    from lasthop import catalogue

    found = load_scheme(scheme) if isinstance(scheme, str) else scheme
    if not isinstance(found, str):
        return set(settings_of(found))
    name = split(found, ":")[0] if found else ""
    entries = (e for e in catalogue.entries() if e["name"] == name)
    return {str(s["name"]) for e in entries for s in e["settings"]}


def with_settings(scheme: str | SchemeClass, values: Mapping[str, str]) -> str | SchemeClass:
    """Return a scheme with other values of its settings and the same label.

    A text that names a class is loaded. Raises `InputError` as `load_scheme` and `configure`.
    """
    found = load_scheme(scheme) if isinstance(scheme, str) else scheme
    if not values:
        return found
    if not isinstance(found, str):
        return _configured(found, values, found.label or found.__name__)
    parts = split(found, ":")
    if not any(part.startswith("label=") for part in parts):
        parts.append(f"label=({found})")
    parts += [f"{k}=({v})" if ":" in v else f"{k}={v}" for k, v in values.items()]
    return ":".join(parts)


def load_named(name: str, settings: str) -> SchemeClass:
    """Load the class that a scenario names, `FILE.py:CLASS`, with its settings as JSON.

    Raises `InputError` as `load_scheme`.
    """
    file, _, found = name.rpartition(":")
    loaded = _load_class(file, found)
    import json

    values = json.loads(settings)
    plain = "" if values else loaded.label or loaded.__name__
    return _configured(loaded, values, plain, name)


def _load_class(file: str, name: str) -> SchemeClass:
    """The class `name` of `file`; a file is loaded once."""
    import sys
    from pathlib import Path

    if file in _session:
        return _session[file]
    path = Path(file)
    if not path.is_file():
        raise InputError(f"{file}:{name}: there is no file {file}")
    key = f"{_MODULE}{path.resolve().as_posix()}"
    module = sys.modules.get(key) or _load_module(key, path, f"{file}:{name}")
    found = getattr(module, name, None)
    if found is None or not is_scheme(found):
        known = [n for n, v in vars(module).items() if is_scheme(v)]
        raise InputError(
            f"{file}:{name}: {file} has no subclass `{name}` of lasthop.CongestionControl or"
            f" lasthop.Agent; it has: {', '.join(known) or 'none'}"
        )
    loaded: SchemeClass = found
    return loaded


def _load_module(key: str, path: Any, scheme: str) -> Any:
    """Execute a file as the module `key`; `scheme` names it in messages."""
    # Imported here, so that runs without a scheme in Python start faster.
    import importlib.util
    import os
    import sys
    import traceback

    # `validate` under sudo acts as the caller, but can become root again (`live.link.as_root`), and
    # so could the file.
    if sys.platform == "linux" and os.getresuid()[2] == 0 != os.geteuid():
        raise InputError(
            f"{scheme}: under sudo, `validate` loads no schemes in Python, which would get the"
            " rights of root; it compares schemes of the catalogue"
        )
    spec = importlib.util.spec_from_file_location(key, path)
    if spec is None or spec.loader is None:
        raise InputError(f"{scheme}: {path} cannot be loaded as Python")
    module = importlib.util.module_from_spec(spec)
    # The file can import modules from its folder, as if Python ran it.
    if str(path.resolve().parent) not in sys.path:
        sys.path.append(str(path.resolve().parent))
    # `inspect` looks up the source of a class by its module.
    sys.modules[key] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[key]
        lines = [
            frame.lineno
            for frame in traceback.extract_tb(error.__traceback__)
            if frame.filename == str(path)
        ]
        line = error.lineno if isinstance(error, SyntaxError) else lines[-1] if lines else None
        raise InputError(
            f"{scheme}: line {line or '?'} of {path}: {type(error).__name__}: {error}"
        ) from error
    return module


__all__ = [
    "Reference",
    "Scheme",
    "SchemeClass",
    "configure",
    "describe",
    "file_of",
    "is_scheme",
    "listed",
    "load_named",
    "load_scheme",
    "name_of",
    "setting_names",
    "settings_of",
    "with_settings",
]
