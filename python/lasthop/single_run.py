"""One run of a scenario, without the packages that only a comparison needs."""

from __future__ import annotations

from lasthop import interrupts, quantities
from lasthop.scenarios import scenario_source

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import Any

    from lasthop import _native
    from lasthop.own_schemes import Scheme
    from lasthop.scenarios.scenario import Scenario
    from lasthop.scenarios.scenario_source import Source

# Version of the JSON document of a run, see `lasthop schema run`.
RUN_SCHEMA_VERSION = 1


def simulate(
    source: Source,
    scheme: Scheme | None,
    seed: int,
    events: str | Path | None = None,
    pcap: str | Path | None = None,
) -> tuple[dict[str, Any], Scenario]:
    """Run a scenario once; see `lasthop.run`. Returns the document of the run and the scenario."""
    if events is not None:
        from lasthop import extras

        extras.require("tables")
    quantities.whole_number(seed, "--seed", most=quantities.MAX_SEED)
    scenario: Any = scenario_source.load(source, scheme)
    if events is not None or pcap is not None:
        from lasthop.scenarios import outputs

        table = [] if events is None else outputs.in_folder("--events", events, ["events.parquet"])
        outputs.check(
            [*table, None if pcap is None else ("--pcap", pcap)],
            outputs.inputs_of(source, scenario),
        )
        return _recorded(scenario, seed, events, pcap), scenario
    return _document(interruptible(lambda cancel: scenario.run(seed, cancel)), scenario), scenario


def _recorded(
    scenario: Any, seed: int, events: str | Path | None, pcap: str | Path | None
) -> dict[str, Any]:
    """The document of a run whose events or packets are written."""
    from contextlib import nullcontext
    from pathlib import Path

    from lasthop.experiments import store

    if events is not None:
        with store.writing(Path(events)):
            Path(events).mkdir(parents=True, exist_ok=True)
    with store.partial(Path(pcap)) if pcap is not None else nullcontext() as capture:
        target = None if capture is None else str(capture)
        found, columns = interruptible(
            lambda cancel: scenario.run_recorded(seed, events is not None, target, cancel)
        )
    result = _document(found, scenario)
    if events is not None:
        from lasthop.experiments import recording

        recording.write(columns, result, Path(events) / "events.parquet")
    return result


def _document(result: _native.Run, scenario: Scenario) -> dict[str, Any]:
    """The document of a run: what the simulator returns, its version and the assumptions."""
    found = result.to_dict()
    return {"schema_version": RUN_SCHEMA_VERSION, **found, "assumed": list(scenario.assumed)}


def interruptible(work: Callable[[Any], Any]) -> Any:
    """Call `work` in another thread, so that Ctrl-C cancels it at once."""
    from lasthop import _native

    cancel = _native.CancelToken()
    return interrupts.interruptible(lambda: work(cancel), cancel.cancel)
