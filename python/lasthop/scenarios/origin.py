"""What a scenario was loaded from, so that it can be loaded again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lasthop import own_schemes
from lasthop.own_schemes import Scheme
from lasthop.scenarios.scenario import Scenario
from lasthop.scenarios.scenario_source import Source, load

Loader = Callable[[Source, Scheme | None], Scenario]


@dataclass(frozen=True)
class Origin:
    """What a scenario was loaded from, in a form that can be pickled.

    The files of its traces and schemes must be found under the same paths.
    """

    source: Source
    #: The scheme that replaced the one in `[tcp]`.
    scheme: Scheme | None = None

    def load(self) -> Scenario:
        """Load the scenario; raises `InputError`."""
        return load(self.source, self.scheme)

    def __getstate__(self) -> tuple[Source, Any]:
        scheme = self.scheme
        return self.source, None if scheme is None else own_schemes.Reference.to(scheme)

    def __setstate__(self, state: tuple[Source, Any]) -> None:
        source, scheme = state
        if isinstance(scheme, own_schemes.Reference):
            scheme = scheme.load()
        elif isinstance(scheme, str):
            scheme = own_schemes.load_scheme(scheme)
        self.__dict__.update(source=source, scheme=scheme)


__all__ = ["Loader", "Origin"]
