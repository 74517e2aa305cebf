"""The result of one run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lasthop import extras
from lasthop.analysis import metrics
from lasthop.errors import InputError
from lasthop.experiments.scenario import Origin

if TYPE_CHECKING:
    import pandas
    import polars
    import xarray
    from matplotlib.figure import Figure

    from lasthop.inspection.inspection import Inspection


@dataclass(frozen=True, repr=False)
class RunResult:
    """The result of one run.

    `data` is the object that `lasthop run --json` prints: rates in bit/s, times in seconds, windows
    in bytes.
    """

    data: Mapping[str, Any]
    #: Per flow, one line: the scheme and its components (window, recovery, agent, …).
    slots: Sequence[str]
    #: Assumptions for what the scenario does not specify, one line each.
    assumed: Sequence[str]
    #: The scenario of this run; `plot` repeats the run to record its events.
    scenario: Any = field(repr=False, compare=False)
    #: What the scenario was loaded from.
    origin: Origin = field(repr=False, compare=False)

    @property
    def goodput_bps(self) -> float:
        """In-order payload of all flows divided by the measured time, bit/s."""
        return metrics.of_run(self.data)["goodput_bps"] or 0.0

    @property
    def flows(self) -> polars.DataFrame:
        """One row per flow."""
        extras.require("tables")
        import polars

        return polars.DataFrame([_flat(f) for f in self.data["flows"]])

    def to_pandas(self) -> pandas.DataFrame:
        """`flows` as a data frame of pandas, indexed by the id of the flow."""
        from lasthop.analysis import frames

        return frames.to_pandas(self.flows, ["id"])

    def to_xarray(self) -> xarray.Dataset:
        """`flows` as a dataset of xarray along the dimension `id`."""
        from lasthop.analysis import frames

        return frames.to_xarray(self.flows, ["id"], {"scenario": self.data["scenario"]})

    @property
    def links(self) -> polars.DataFrame:
        """One row per unidirectional link."""
        extras.require("tables")
        import polars

        return polars.DataFrame([_flat(x) for x in self.data["links"]])

    def series(self) -> polars.DataFrame:
        """What schemes in Python recorded by `window.record` and `ctx.record`.

        One row per number, in order of time: t_s (seconds), flow (its id), series (the name),
        value. The run is repeated to record them.
        """
        extras.require("tables")
        import polars

        _, columns = self.scenario.run_series(self.data["seed"], [])
        found = columns["series"]
        flows, names = [f["id"] for f in self.data["flows"]], found["names"]
        return polars.DataFrame(
            {
                "t_s": found["t_ns"] / 1e9,
                "flow": [flows[i] if i >= 0 else None for i in found["flow"]],
                "series": [names[i] for i in found["series"]],
                "value": found["value"],
            },
            schema={
                "t_s": polars.Float64,
                "flow": polars.String,
                "series": polars.String,
                "value": polars.Float64,
            },
        )

    def plot(
        self,
        file: str | Path | None = None,
        show: Sequence[str] = ("cwnd", "rate", "rtt"),
        *,
        flow: str | None = None,
        style: str = "",
        ax: Any = None,
    ) -> Figure:
        """Draw series of all flows, or of the one with the id `flow`, one panel per series.

        Each flow has a line; more than seven have thin lines and their mean.

        `show` names series over time (goodput, delivered, rate, sending, cwnd, ssthresh,
        cwnd_reductions, queue, rtt, sequence) or "delay", the distribution of the one-way delay.
        On the congestion window, dots mark fast retransmits and timeouts.
        `file` (.svg, .png or .pdf), if given, is written. `style` names a preset of
        `plotting.styles`. `ax` are axes of matplotlib to draw into, one for each series.
        """
        extras.require("plots")
        from lasthop.analysis import series
        from lasthop.experiments import outputs
        from lasthop.plotting import plots, series_panels, styles

        series_panels.check(show)
        if file is not None:
            outputs.check([("plot:", file)], self._inputs())
        kinds = sorted({*series.events_needed(show, []), *series_panels.REDUCTIONS})
        _, columns = self.scenario.run_series(self.data["seed"], kinds)
        span = (0.0, self.data["duration_s"])
        labels = self._labels(flow)
        flows = [(label, series.Events.of(kinds, columns, i)) for i, label in labels.items()]
        parts = []
        for name in show:
            lines = series_panels.of_flows(flows, name, span)
            if name == "cwnd" and len(flows) <= series_panels.MAX_LINES:
                lines += series_panels.reductions([events for _, events in flows])
            parts.append(series_panels.panel(name, lines, span))
        title = f"{self.data['scenario']}: {self.data['scheme']}"
        caption = f"one run, seed {self.data['seed']}"
        if len(self.data["flows"]) > 1:
            which = "all" if flow is None else f"flow {flow} of"
            caption += f", {which} {len(self.data['flows'])} flows"
        with styles.use(style):
            figure = plots.panels(parts, title, caption=caption, ax=ax)
            if file is not None:
                plots.save(figure, [Path(file)])
        return figure

    def _labels(self, wanted: str | None) -> dict[int, str]:
        """Index and label of the flows to draw: the scheme, with several flows after the id."""
        ids = [str(f["id"]) for f in self.data["flows"]]
        if wanted is not None and wanted not in ids:
            raise InputError(f"flow: there is no flow {wanted!r}; flows are {', '.join(ids[:20])}")
        if len(ids) == 1:
            return {0: str(self.data["scheme"])}
        schemes = [str(f.get("scheme") or "") for f in self.data["flows"]]
        return {
            i: f"{name}: {scheme}" if scheme else name
            for i, (name, scheme) in enumerate(zip(ids, schemes, strict=True))
            if wanted in (None, name)
        }

    def __repr__(self) -> str:
        scenario, scheme = (str(self.data[k]) for k in ("scenario", "scheme"))
        flows = len(self.data["flows"])
        return (
            f"<RunResult {scenario[:60]}: {scheme[:40]}, seed {self.data['seed']},"
            f" {flows} flow{'s' * (flows != 1)}, goodput {self.goodput_bps * 1e-3:.4g} kbit/s>"
        )

    def _repr_html_(self) -> str:
        from lasthop.analysis import html

        return html.run(self)

    def inspect(self, flow: str | None = None, shortest: str | None = None) -> Inspection:
        """Look inside this run; see `lasthop.inspect`. The run is repeated to record its events."""
        from lasthop import runs

        return runs.inspect_scenarios(
            [self.scenario], self.data["seed"], flow, shortest, self._inputs()
        )

    def _inputs(self) -> list[str]:
        from lasthop.experiments import outputs

        return outputs.inputs_of(self.origin.source, self.scenario)

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k != "scenario"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, scenario=state["origin"].load())

    def __str__(self) -> str:
        from lasthop.analysis import run_text

        return run_text.run(self.data, self.slots, self.assumed)


def _flat(row: Mapping[str, Any]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for key, value in row.items():
        if isinstance(value, Mapping):
            out |= {f"{key}_{k}": v for k, v in value.items()}
        else:
            out[key] = value
    return out


__all__ = ["RunResult"]
