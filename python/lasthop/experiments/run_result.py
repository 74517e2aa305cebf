"""The result of one run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lasthop import extras
from lasthop.analysis import metrics
from lasthop.renderers import renderer
from lasthop.scenarios import outputs
from lasthop.scenarios.origin import Origin

if TYPE_CHECKING:
    import pandas
    import polars
    import xarray
    from matplotlib.figure import Figure

    from lasthop.scenarios.python_values import Time


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
        figure: Figure = renderer("run: figure")(self, file, show, flow=flow, style=style, ax=ax)
        return figure

    def __repr__(self) -> str:
        scenario, scheme = (str(self.data[k]) for k in ("scenario", "scheme"))
        flows = len(self.data["flows"])
        return (
            f"<RunResult {scenario[:60]}: {scheme[:40]}, seed {self.data['seed']},"
            f" {flows} flow{'s' * (flows != 1)}, goodput {self.goodput_bps * 1e-3:.4g} kbit/s>"
        )

    def _repr_html_(self) -> str:
        shown: str = renderer("run: notebook")(self)
        return shown

    def inspect(self, flow: str | None = None, shortest: Time | None = None) -> Any:
        """Look inside this run: an `Inspection`, see `lasthop.inspect`.

        The run is repeated to record its events.
        """
        return renderer("run: inspection")(self, flow, shortest)

    def inputs(self) -> list[str]:
        """The files that the run was read from, which no output may replace."""
        return outputs.inputs_of(self.origin.source, self.scenario)

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k != "scenario"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, scenario=state["origin"].load())

    def __str__(self) -> str:
        text: str = renderer("run: text")(self.data, self.slots, self.assumed)
        return text


def _flat(row: Mapping[str, Any]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for key, value in row.items():
        if isinstance(value, Mapping):
            out |= {f"{key}_{k}": v for k, v in value.items()}
        else:
            out[key] = value
    return out


__all__ = ["RunResult"]
