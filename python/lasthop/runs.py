"""Single runs: run, inspect, explain, replay."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lasthop import own_schemes, quantities, single_run
from lasthop.errors import InputError
from lasthop.experiments import plan
from lasthop.experiments.plan import Scheme
from lasthop.experiments.run_result import RunResult
from lasthop.scenarios import outputs, scenario_source
from lasthop.scenarios.python_values import ScenarioDict, Settings, Time, seconds

if TYPE_CHECKING:
    from lasthop.inspection.inspection import Inspection


def run(
    file: str | Path | ScenarioDict | None = None,
    *,
    text: str | None = None,
    scheme: Scheme | None = None,
    seed: int = 1,
    settings: Settings = (),
    last_hop: Mapping[str, object] | None = None,
    flows: Mapping[str, Any] | int | None = None,
    events: str | Path | None = None,
    pcap: str | Path | None = None,
    **options: Any,
) -> RunResult:
    """Simulate a scenario once.

    The scenario is `file`, a dictionary in the form of a file, or `text` in the same format, or the
    last hop that `last_hop` describes (keys down, up, rtt, loss, rate, queue, mtu). `settings`
    overrides scenario keys: {"tcp.min_rto": "1 s"}. `flows` describes flows with the keys `traffic`
    (named traffic: "web+bulk"), `against` (schemes of competitors), `flows` (number of candidates),
    `start` (start times), `upload` (true or false) and `duration`. `options` are keys of `last_hop`
    and `flows` as arguments: rate="2Mbps", traffic="web", duration=10. Values are texts with units
    ("40ms") or numbers in seconds, bit/s, bytes, or as a share from 0 to 1. `events` is a folder
    for events.parquet, `pcap` a file for a packet capture (pcapng).

    Raises `InputError` for wrong input and `CheckFailed` if the simulator's verifier fails.
    """
    where = scenario_source.described(file, text, settings, last_hop, flows, options)
    result, scenario = single_run.simulate(where, scheme, seed, events, pcap)
    return RunResult(result, scenario.slots, scenario.assumed, scenario, plan.Origin(where, scheme))


def inspect(
    file: str | Path | ScenarioDict | None = None,
    *,
    text: str | None = None,
    scheme: Scheme | None = None,
    schemes: Sequence[Scheme] | Scheme | None = None,
    seed: int = 1,
    flow: str | None = None,
    shortest: Time | None = None,
    settings: Settings = (),
    last_hop: Mapping[str, object] | None = None,
    flows: Mapping[str, Any] | int | None = None,
    out: str | Path | None = None,
    qlog: str | Path | None = None,
    pcap: str | Path | None = None,
    snaplen: int | None = None,
    command: str = "",
    **options: Any,
) -> Inspection:
    """Look inside one run: windows, delays, sequence numbers, losses and the causes of stalls.

    The scenario is given as for `run`; `file` may also be a folder that `compare` wrote with `out`,
    whose scenario is then run again. `scheme` replaces the scheme; with several `schemes`, at most
    four, each is run with the same seed. `flow` is the id of the flow to inspect (default: the
    first). `shortest` replaces the threshold of stalls ("500 ms", or seconds). `out` is a file for
    the page, `qlog` one for the events of the senders (JSON-SEQ). `pcap` is a folder for packet
    captures, one per hop, with at most `snaplen` bytes of each packet; with several schemes it has
    a folder for each.

    Returns an `Inspection`: `save` writes the page, `stalls` lists the stalls. Raises `InputError`
    for wrong input.
    """
    quantities.whole_number(seed, "--seed", most=quantities.MAX_SEED)
    if snaplen is not None and not MIN_SNAPLEN <= snaplen <= MAX_SNAPLEN:
        raise InputError(f"--snaplen must be {MIN_SNAPLEN} to {MAX_SNAPLEN} bytes, found {snaplen}")
    if isinstance(file, (str, Path)) and Path(file).is_dir():
        file = _stored_scenario(Path(file))
    where = scenario_source.described(
        file, text, settings, last_hop, flows, options, draw_starts=True
    )
    if scheme is not None and schemes is not None:
        raise InputError("give `scheme` or `schemes`, not both")
    schemes = scheme if schemes is None else schemes
    wanted = [None] if schemes is None else own_schemes.listed(schemes)
    if not 1 <= len(wanted) <= MAX_INSPECTED:
        raise InputError(f"--schemes takes 1 to {MAX_INSPECTED} schemes, found {len(wanted)}")
    scenarios = [plan.load(where, scheme) for scheme in wanted]
    inputs = outputs.inputs_of(where, *scenarios)
    files = [(f"--{k}", v) for k, v in (("out", out), ("qlog", qlog)) if v is not None]
    outputs.check(files, inputs)
    found = inspect_scenarios(scenarios, seed, flow, shortest, inputs, pcap, snaplen, command)
    if out is not None:
        found.save(out)
    if qlog is not None:
        found.save_qlog(qlog)
    return found


#: Smallest snapshot length: IP and TCP headers with all options. Largest: that of libpcap.
MIN_SNAPLEN, MAX_SNAPLEN = 80, 262_144
#: Most schemes on one page.
MAX_INSPECTED = 4
#: Most bytes that the record of one run has; the page needs nearly as many again. It has room for
#: 10 minutes of a flow at 100 Mbit/s.
MAX_RECORD_BYTES = 1_400_000_000


def _stored_scenario(folder: Path) -> Path:
    """The scenario of a folder that `compare --out` wrote."""
    found = folder / "scenario.toml"
    if not found.is_file():
        raise InputError(f"{folder}: no scenario.toml; expected a folder written by compare --out")
    return found


def inspect_scenarios(
    scenarios: Sequence[Any],
    seed: int,
    flow: str | None,
    shortest: Time | None,
    inputs: Sequence[str],
    pcap: str | Path | None = None,
    snaplen: int | None = None,
    command: str = "",
) -> Inspection:
    """Run loaded scenarios with the same seed and record what happens inside; see `inspect`.

    `inputs` are the files that they were read from, which no output may replace.
    """
    from lasthop import _native
    from lasthop.inspection import inspection

    least = None if shortest is None else seconds(shortest, "--shortest")
    if least is not None and least <= 0:
        raise InputError(f"--shortest must be longer than 0 s, found {shortest}")
    folders = (
        [None] * len(scenarios)
        if pcap is None
        else [
            inspection.capture_folder(Path(pcap), str(s.scheme["label"]), len(scenarios) > 1)
            for s in scenarios
        ]
    )
    for folder in folders:
        if folder is not None:
            outputs.check(outputs.in_folder("--pcap", folder, ["*.pcapng"]), inputs)

    works = []
    for scenario, captured in zip(scenarios, folders, strict=True):
        index = inspection.flow_index(scenario.flows(seed), flow)
        run, repeat = (
            partial(_recorded, scenario, seed, index, snaplen, x) for x in (captured, None)
        )
        works.append(inspection.Work(scenario.assumed, run, repeat, index))
    return inspection.do_runs(
        works,
        seed=seed,
        version=_native.version(),
        shortest_s=least,
        command=command,
        inputs=inputs,
    )


def inspect_result(result: RunResult, flow: str | None, shortest: Time | None) -> Inspection:
    """Look inside the run of a result; see `RunResult.inspect`."""
    seed: int = result.data["seed"]
    return inspect_scenarios([result.scenario], seed, flow, shortest, result.inputs())


def _recorded(
    scenario: Any, seed: int, index: int, snaplen: int | None, captured: Path | None
) -> Any:
    """The result and the record of a run, with its captures in the folder `captured`."""
    from lasthop.experiments import store

    files: AbstractContextManager[Path | None] = nullcontext()
    if captured is not None:
        files = store.new_folder(captured)
    with files as captures:
        target = None if captures is None else str(captures)
        record = partial(scenario.run_inspected, seed, index, MAX_RECORD_BYTES, target, snaplen)
        return single_run.interruptible(record)


def explain(
    file: str | Path | ScenarioDict | None = None,
    *,
    text: str | None = None,
    scheme: Scheme | None = None,
    settings: Settings = (),
    last_hop: Mapping[str, object] | None = None,
    flows: Mapping[str, Any] | int | None = None,
    observed: bool = False,
    **options: Any,
) -> dict[str, Any]:
    """How a run would be computed, without running it. Arguments as for `run`.

    The result has `links` (for each one-way link `from`, `to`, the `mode` in which it is computed
    and `why`), `receivers` (for each TCP connection its `flow`, whether its receiver is computed
    `in_advance`, when a segment is sent, and `why`) and `probes`, the names of what measures the
    run. `observed` is for a run that writes events or a capture: each event then happens at its
    time.
    """
    where = scenario_source.described(file, text, settings, last_hop, flows, options)
    scenario: Any = plan.load(where, scheme)
    explained: dict[str, Any] = scenario.explain(observed)
    return explained


def replay(
    capture: str | Path,
    *,
    mobile: str,
    scheme: Scheme,
    out: str | Path,
    interface: str | None = None,
) -> tuple[str, dict[str, Any]]:
    """Feed the packets of a capture to the agent of `scheme`.

    `scheme` is a name or a subclass of `lasthop.Agent`. `capture` was taken at the base station;
    the packets that leave the base station are written to `out`. `mobile` is the address or network
    of the mobile side: "10.0.0.2" or "10.0.0.0/24". `interface` names the interface of the capture
    to use, if it has several. Returns a report as text, and its counters. Raises `InputError` if no
    packet was found to be TCP to or from the mobile: nothing is written then.
    """
    from lasthop import _native
    from lasthop.experiments import store

    try:
        Path(capture).open("rb").close()
    except OSError as error:
        raise InputError(f"{capture}: {error.strerror}") from None
    agent = own_schemes.with_settings(scheme, {})
    own = None if isinstance(agent, str) else own_schemes.file_of(agent)
    outputs.check([("--out", out)], [capture, *([] if own is None else [own])])
    with store.partial(Path(out)) as temporary:
        text, counts = _native.replay(str(capture), str(temporary), mobile, agent, interface)
    return text, json.loads(counts)


__all__ = ["explain", "inspect", "replay", "run"]
