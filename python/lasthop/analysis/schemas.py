"""JSON Schemas (2020-12) of what the commands print with `--json`."""

from __future__ import annotations

from typing import Any, Final

from lasthop import limits
from lasthop.analysis import metrics, paired

#: Version of the documents. Keys may be added to a version; none is removed or changes its meaning.
VERSION = 1

Schema = dict[str, Any]

_TEXT: Schema = {"type": "string"}
_COUNT: Schema = {"type": "integer", "minimum": 0}
_NUMBER: Schema = {"type": "number"}
_POSITIVE: Schema = {"type": "number", "minimum": 0}
_FLAG: Schema = {"type": "boolean"}
_TEXTS: Schema = {"type": "array", "items": _TEXT}


def _or_null(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


def _object(required: Schema, optional: Schema | None = None, about: str = "") -> Schema:
    found: Schema = {"type": "object", "required": list(required)}
    found["properties"] = {**required, **(optional or {})}
    return {"description": about, **found} if about else found


def _list(items: Schema, about: str = "") -> Schema:
    found: Schema = {"type": "array", "items": items}
    return {"description": about, **found} if about else found


def _counts(*keys: str) -> Schema:
    return _object(dict.fromkeys(keys, _COUNT))


_SPREAD = _object(
    dict.fromkeys(("mean", "p50", "p95", "p99"), _or_null(_POSITIVE)),
    about="mean and percentiles, in seconds",
)
_INTERVAL = _or_null({"type": "array", "items": _NUMBER, "minItems": 2, "maxItems": 2})
_ERROR: Schema = {"type": "array", "description": "runs that failed", "items": {"type": "object"}}
_ASSUMED = {**_TEXTS, "description": "assumptions for what the scenario does not specify"}
_COMMAND = {**_TEXT, "description": "the command that was called"}
_ELAPSED = {**_POSITIVE, "description": "wall-clock time of the command, in seconds"}
_VERSION: Schema = {"const": VERSION, "description": "version of this schema"}
_LIMITED_BY = _object({key: {**_POSITIVE, "maximum": 1} for key in limits.NAMES}, about="shares")
#: What every document ends with.
_ABOUT: Schema = {"command": _COMMAND, "elapsed_s": _ELAPSED}


def _flow() -> Schema:
    required = {
        **dict.fromkeys(("id", "group", "role", "app", "from", "to", "slots"), _TEXT),
        "scheme": {**_or_null(_TEXT), "description": "null for datagrams"},
        "goodput_bps": _or_null(_POSITIVE),
        "delivered_bytes": _COUNT,
        "completed_s": _or_null(_POSITIVE),
        "empty_path_s": _or_null(_POSITIVE),
        "first_byte_s": _or_null(_POSITIVE),
        "sent_segments": _COUNT,
        "retransmissions": _counts("total", "spurious"),
        "timeouts": _counts("total", "spurious", "ack_loss"),
        "fast_retransmits": _counts("total", "spurious"),
        "cwnd_reductions": _COUNT,
        "burst_segments": _or_null(_COUNT),
        "limited_by": _or_null(_LIMITED_BY),
        "rtt_s": _SPREAD,
        "one_way_delay_s": _SPREAD,
    }
    notices = _counts("ersn", "eln", "ignored", "held_timeouts")
    call = {
        **dict.fromkeys(("sent", "late", "lost"), _COUNT),
        "deadline_s": _POSITIVE,
        "late_or_lost_share": _or_null({**_POSITIVE, "maximum": 1}),
        "mos": _or_null(_POSITIVE),
    }
    requests = {
        **dict.fromkeys(("sent", "repeated", "answered"), _COUNT),
        "answered_per_s": _POSITIVE,
        "response_s": _SPREAD,
    }
    video = {
        **dict.fromkeys(("stalls", "switches", "chunks"), _COUNT),
        **dict.fromkeys(("played_s", "stalled_s"), _POSITIVE),
        **dict.fromkeys(("startup_s", "bitrate_bps"), _or_null(_POSITIVE)),
        "rebuffer_ratio": _or_null({**_POSITIVE, "maximum": 1}),
    }
    more = {
        "acknowledged_undelivered_bytes": _COUNT,
        "notices": notices,
        "arrived_s": _POSITIVE,
        "discarded": _counts("old_timestamp", "beyond_window", "zero_window", "challenged", "acks"),
        "gave_up": _object({"at_s": _POSITIVE, "unanswered": {"enum": ["syn", "data", "probe"]}}),
        "bounds": _list(_object(dict.fromkeys(("limited_by", "setting", "value"), _TEXT))),
        "call": _object(call),
        "requests": _object(requests),
        "video": _object(video),
    }
    return _object(required, more)


# Counters of links with a policer, copies and undetected bit errors.
_IMPAIRMENTS: Final = ("dropped_by_policer", "duplicated_frames", "corrupted_frames")


def _link() -> Schema:
    counts = ("offered_frames", "delivered_frames", "lost_on_air", "dropped_at_queue")
    required = {
        **dict.fromkeys(("from", "to"), _TEXT),
        "radio": _FLAG,
        **dict.fromkeys((*counts, "marked_frames"), _COUNT),
        "utilisation": _or_null(_POSITIVE),
        "capacity_bps": _or_null(_POSITIVE),
        "busy_s": _POSITIVE,
        "queue_delay_s": _SPREAD,
    }
    more: tuple[str, ...] = ("attempts", "arq_discards", "collisions", "lost_in_collision")
    more += ("queue_peak_frames", *_IMPAIRMENTS)
    return _object(required, dict.fromkeys(more, _or_null(_COUNT)))


def _run() -> Schema:
    traffic: tuple[str, ...] = (
        "before",
        "offered",
        "injected",
        "data",
        "duplicates",
        "acks",
        "control",
    )
    traffic += ("bit_errors", "collisions", "queue_drops", "at_agents", "in_flight")
    agent = {"node": _TEXT, "scheme": _TEXT, "counters": {"type": "object"}}
    required = {
        "schema_version": _VERSION,
        **dict.fromkeys(("lasthop", "scenario", "scheme"), _TEXT),
        "seed": _COUNT,
        "duration_s": _POSITIVE,
        "measured_s": _POSITIVE,
        "assumed": _ASSUMED,
        "warnings": _TEXTS,
        "flows": _list(_flow()),
        "links": _list(_link(), "one-way links"),
        "agents": _list(_object(agent, {"limited_by": _or_null(_LIMITED_BY)})),
        "traffic_bits": _object(
            dict.fromkeys(traffic, _COUNT),
            dict.fromkeys(("duplicated_by_link", "corrupted", "discarded"), _COUNT),
        ),
        "classifier": _or_null({"type": "object"}),
        "command": _COMMAND,
    }
    lists = {"clicks": _list({"type": "object"}), "handovers": _list({"type": "object"})}
    return _object(required, lists)


def _metric(name: str) -> Schema:
    label, _, meaning = (metrics.METRICS | metrics.SERIES_METRICS)[name]
    return _metric_of(f"{label}: {meaning}")


def _metric_of(about: str) -> Schema:
    quantile = _object({"value": _or_null(_NUMBER), "ci95": _INTERVAL})
    mean = {"mean": _or_null(_NUMBER), "ci95": _INTERVAL}
    difference = {
        **mean,
        "p": _or_null({"type": "number", "minimum": 0, "maximum": 1}),
        "p_holm": _or_null({"type": "number", "minimum": 0, "maximum": 1}),
        "seeds_needed": _or_null(_COUNT),
    }
    return _object(
        {
            **mean,
            "sd": _or_null(_POSITIVE),
            "quantiles": _object(dict.fromkeys(paired.QUANTILES, quantile)),
            "ratio_to_first": _object({**mean, "bootstrap_ci95": _INTERVAL}),
            "difference_to_first": _object(difference),
            "correlation_to_first": _or_null({"type": "number", "minimum": -1, "maximum": 1}),
        },
        about=about,
    )


def _group_metric(key: str) -> Schema:
    label, _, meaning = metrics.GROUP_METRICS[key]
    found = {"mean": _or_null(_NUMBER), "sd": _or_null(_POSITIVE), "ci95": _INTERVAL}
    return _object(found, about=f"{label}: {meaning}")


def _compare() -> Schema:
    scheme = {
        **dict.fromkeys(("label", "name"), _TEXT),
        "settings": {"type": "object"},
        **dict.fromkeys(("slots", "warnings", "assumed"), _TEXTS),
        "deterministic": _FLAG,
        "runs": _COUNT,
        **{name: _metric(name) for name in metrics.METRICS},
    }
    measures = {name: _metric(name) for name in metrics.SERIES_METRICS}
    numbers = {key: _group_metric(key) for key in metrics.GROUP_METRICS}
    scheme_of_group = {**_or_null(_TEXT), "description": "null for datagrams"}
    group = {"name": _TEXT, "flows": _COUNT, "role": _TEXT, "scheme": scheme_of_group, **numbers}
    groups = _list(_object(group), "one for each [[flow]]")
    roles = _list(_object({"role": _TEXT, "flows": _COUNT, **numbers}), "all flows of each role")
    point = {
        "set": {"type": "object", "additionalProperties": _TEXT},
        "schemes": _list(
            _object(
                scheme, {"needs": {"type": "object"}, "groups": groups, "roles": roles, **measures}
            )
            | {"patternProperties": {r"^agents\.": _metric_of("counter of an agent or a relay")}}
        ),
    }
    return _object(
        {
            "schema_version": _VERSION,
            **dict.fromkeys(("lasthop", "scenario", "scenario_sha256"), _TEXT),
            "command": _COMMAND,
            "seeds": _list(_COUNT),
            "assumed": _ASSUMED,
            "points": _list(_object(point)),
            "failed": _ERROR,
            "elapsed_s": _ELAPSED,
        },
        {"claims": _list(_claim(), "of the scenario file")},
    )


def _sweep() -> Schema:
    return _object(
        {
            "schema_version": _VERSION,
            **dict.fromkeys(("lasthop", "build", "scenario", "scenario_sha256", "id"), _TEXT),
            "command": _COMMAND,
            "schemes": _TEXTS,
            "warnings": _TEXTS,
            "assumed": _ASSUMED,
            "shard": {"type": "array", "items": _COUNT, "minItems": 2, "maxItems": 2},
            "points": _COUNT,
            "runs": {**_COUNT, "description": "finished runs"},
            "reused": {**_COUNT, "description": "runs of earlier calls"},
            "missing": _COUNT,
            "failed": _list(
                _object({"point": _COUNT, "scheme": _TEXT, "seed": _COUNT, "error": _TEXT})
            ),
            "elapsed_s": _ELAPSED,
        }
    )


def _check() -> Schema:
    result = {
        "gate": _TEXT,
        "scheme": _TEXT,
        "set": {"type": "object", "additionalProperties": _TEXT},
        "ratio": _or_null(_NUMBER),
        "ci95": _INTERVAL,
        "runs": _COUNT,
        "verdict": {"enum": ["ok", "worse", "undecided"]},
        "why": _TEXT,
        "deterministic": {**_FLAG, "description": "one run, because nothing is drawn by seed"},
    }
    return _object(
        {
            "schema_version": _VERSION,
            **dict.fromkeys(("lasthop", "scenario", "baseline", "baseline_build"), _TEXT),
            "command": _COMMAND,
            "ok": _FLAG,
            "results": _list(_object(result)),
            "assumed": _ASSUMED,
            "failed": _ERROR,
            "elapsed_s": _ELAPSED,
        }
    )


def _claim() -> Schema:
    numbers = _or_null({"anyOf": [_NUMBER, _list(_or_null(_NUMBER))]})
    found: Schema = {
        **dict.fromkeys(("id", "text", "why", "unit", "display"), _TEXT),
        "kind": {"enum": ["order", "about", "bound", "shape"]},
        "paper": {**_or_null({"anyOf": [_NUMBER, _TEXT]}), "description": "number or words"},
        "measured": numbers,
        "ci95": {"anyOf": [_INTERVAL, _list(_INTERVAL)]},
        "verdict": {"enum": ["holds", "differs", "undecided"]},
        "n": {**_COUNT, "description": "runs, or pairs of runs"},
    }
    return _object(found)


def _reproduce() -> Schema:
    figure = {
        **dict.fromkeys(("id", "title"), _TEXT),
        "modified": _FLAG,
        "runs": _COUNT,
        "claims": _list(_claim()),
        "assumed": _ASSUMED,
        "failed": _ERROR,
        "files": _TEXTS,
    }
    return _object(
        {
            "schema_version": _VERSION,
            "lasthop": _TEXT,
            "figures": _list(_object(figure)),
            **_ABOUT,
        }
    )


def _inspect() -> Schema:
    counts = (
        *("delivered_bytes", "sent_segments", "agent_segments", "retransmissions"),
        *("spurious_retransmissions", "timeouts", "fast_retransmits", "lost_acks"),
        *("suppressed_segments", "suppressed_acks"),
    )
    totals = {
        **dict.fromkeys(("goodput_bps", "rtt_min_s", "rtt_median_s"), _or_null(_POSITIVE)),
        **dict.fromkeys(counts, _COUNT),
        "losses": {"type": "object", "description": "data, by fate"},
        "suppressed_by": _TEXT,
    }
    stall = {
        **dict.fromkeys(("start_s", "end_s", "duration_s"), _POSITIVE),
        **dict.fromkeys(("cause", "sentence"), _TEXT),
        "gaps": _list({"type": "object"}, "gaps in the in-order delivery, with the evidence"),
    }
    connection = {
        **dict.fromkeys(("title", "scheme", "slots", "sender"), _TEXT),
        "path": _TEXTS,
        "totals": _object(totals),
        "limited_by": {"type": "object", "description": "shares of time"},
        "stall_threshold_s": _POSITIVE,
        "stalls": _list(_object(stall)),
    }
    return _object(
        {
            "schema_version": _VERSION,
            "json_version": {**_VERSION, "description": "the same as schema_version"},
            **dict.fromkeys(("lasthop", "scenario", "flow"), _TEXT),
            "seed": _COUNT,
            "duration_s": _POSITIVE,
            "assumed": _ASSUMED,
            "outages": _list({"type": "object"}),
            "connections": _list(_object(connection)),
            **_ABOUT,
        }
    )


def _replay() -> Schema:
    counts = (
        *("packets", "other_interfaces", "tcp", "cut_short", "flows", "flows_evicted"),
        *("forwarded", "rewritten", "kept", "injected", "not_injected", "written"),
    )
    by_reason = {"type": "object", "additionalProperties": _COUNT}
    return _object(
        {
            "schema_version": _VERSION,
            **dict.fromkeys(("lasthop", "scheme", "mobile"), _TEXT),
            "interface": _or_null(_TEXT),
            **dict.fromkeys(counts, _COUNT),
            "encapsulations": {**by_reason, "description": "packets of tcp inside tunnels"},
            "untouched": {**by_reason, "description": "packets not shown to the agent"},
            "dropped": {**by_reason, "description": "packets that the agent dropped"},
            "agent": {"type": "object", "description": "its counters"},
            "assumed": _ASSUMED,
            "notes": _TEXTS,
            **_ABOUT,
        }
    )


def _schemes() -> Schema:
    entry = {
        **dict.fromkeys(("name", "family", "summary", "paper"), _TEXT),
        "group": _or_null(_TEXT),
        "slots": {"type": "object", "additionalProperties": _TEXT},
        "changes": {"type": "object", "additionalProperties": _FLAG},
        "settings": _list({"type": "object"}),
        "assumptions": _TEXTS,
        "evidence": _list({"type": "object"}),
        **dict.fromkeys(("unsafe", "simulation_only"), _FLAG),
        "unsafe_where": _or_null(_TEXT),
    }
    about = "the catalogue, or the scheme that was named; a list without version and command"
    return _list(_object(entry), about)


def _doctor() -> Schema:
    check = {"what": _TEXT, "ok": _FLAG, "found": _TEXT, "remedy": _TEXT}
    link = {**_FLAG, "description": "`lasthop link` can run on this machine"}
    return _object(
        {"schema_version": _VERSION, "link": link, "checks": _list(_object(check)), **_ABOUT}
    )


def _new() -> Schema:
    following = {**_TEXT, "description": "the command to try next"}
    return _object({"schema_version": _VERSION, "written": _TEXTS, "next": following, **_ABOUT})


def _trace() -> Schema:
    directions = ("down", "up")
    rate = {**_or_null(_POSITIVE), "description": "null if the direction was not measured"}
    gaps = _object({"count": _COUNT, "total_s": _POSITIVE}, about="times without measurement")
    times = _or_null(_object(dict.fromkeys(("minimum", "median", "p95"), _POSITIVE)))
    skipped = {"reason": _TEXT, "rows": _COUNT, "lines": _list(_COUNT, "the first of them")}
    return _object(
        {
            "schema_version": _VERSION,
            "lasthop": _TEXT,
            "format": {**_TEXT, "description": "format of the file, or of the files joined by +"},
            "duration_s": {**_POSITIVE, "description": "from the first row to the end of the last"},
            "rows": _COUNT,
            "mean_rate_bps": _object(dict.fromkeys(directions, rate), about="of measured time"),
            "gaps": _object(dict.fromkeys(directions, gaps)),
            "rtt_s": times,
            "delay_s": _object(dict.fromkeys(directions, times), about="one way"),
            "loss": _or_null({**_POSITIVE, "maximum": 1, "description": "share of the packets"}),
            "skipped": {**_COUNT, "description": "rows of the files that were left out"},
            "skipped_rows": _list(_object(skipped)),
            "sources": _list(_object({"file": _TEXT, "clock": _TEXT})),
            "notes": {**_TEXTS, "description": "what was assumed or changed while reading"},
            "written": {**_TEXTS, "description": "files that the command wrote"},
            **_ABOUT,
        }
    )


def _advise() -> Schema:
    spread = {"type": "array", "items": _NUMBER, "minItems": 3, "maxItems": 3}
    changes = {"goodput": spread, "delay": spread, "competitor": _or_null(spread)}
    texts = {"scheme": _TEXT, **dict.fromkeys(("changes", "warnings"), _TEXTS)}
    option = {**texts, **changes, "reads_tcp": {"type": "boolean"}, "draws": _COUNT}
    return _object(
        {
            "schema_version": _VERSION,
            **dict.fromkeys(("lasthop", "can", "text"), _TEXT),
            "verdict": {"enum": ["helps", "nothing helps", "cannot tell"]},
            "options": _list(_object(option), "shares: median, 5th and 95th percentile"),
            **dict.fromkeys(("narrows", "measurement"), _or_null(_TEXT)),
            **{"fit": {"type": "object"}, **_ABOUT},
        }
    )


def _baseline() -> Schema:
    case = {
        "point": _COUNT,
        "set": {"type": "object", "additionalProperties": _TEXT},
        "scheme": _TEXT,
        "seeds": _list(_COUNT),
        "metrics": {"type": "object", "description": "values by metric, in the order of seeds"},
    }
    return _object(
        {
            "schema_version": _VERSION,
            **dict.fromkeys(("lasthop", "build", "scenario", "scenario_sha256"), _TEXT),
            "command": _COMMAND,
            "file": _or_null(_TEXT),
            "text": {**_or_null(_TEXT), "description": "the scenario"},
            "settings": _list(_TEXTS),
            "last_hop": {"type": "object", "additionalProperties": _TEXT},
            "schemes": _TEXTS,
            "vary": {"type": "object", "additionalProperties": _TEXTS},
            "seeds": _COUNT,
            "gates": _TEXTS,
            "cases": _list(_object(case)),
        },
        {"assumed": _ASSUMED, "elapsed_s": _ELAPSED, "draw_starts": _FLAG},
    )


#: Congestion control of the kernels at the ends of a live link.
_ENDS = {"congestion_control": _TEXT, "available": _TEXTS}


def _live_link() -> Schema:
    hop = {
        **dict.fromkeys(("from", "to"), _TEXT),
        "direction": {"enum": ["down", "up"]},
        **dict.fromkeys(
            (
                *("offered_frames", "delivered_frames", "lost_on_air", "dropped_at_queue"),
                *("marked_frames", "bytes", "above_mtu", *_IMPAIRMENTS),
            ),
            _COUNT,
        ),
    }
    counts = {"type": "object", "additionalProperties": _COUNT}
    agent = {"scheme": _TEXT, "counters": counts, "notices": _COUNT, "dropped": counts}
    late = {**dict.fromkeys(("p50", "p99", "p99_9"), _or_null(_POSITIVE)), "max": _POSITIVE}
    series = {"columns": _TEXTS, "rows": _list(_list(_or_null(_POSITIVE)))}
    outer = dict.fromkeys(
        ("connections", "refused", "beyond_limit", "limit", "datagrams", "dropped"), _COUNT
    )
    reasons = dict.fromkeys(("not_read", "not_taken"), _COUNT)
    return _object(
        {
            "schema_version": _VERSION,
            **dict.fromkeys(("lasthop", "scenario", "scheme"), _TEXT),
            **dict.fromkeys(("seed", "connections", "packets", "own_drops", "exit_status"), _COUNT),
            **dict.fromkeys(("duration_s", "one_way_delay_s", "bound_us"), _POSITIVE),
            "first_connection_s": {
                **_or_null(_POSITIVE),
                "description": "when the first TCP packet entered",
            },
            **dict.fromkeys(("real_time", "valid"), _FLAG),
            "invalid": _TEXTS,
            "own_drop_reasons": _object(reasons),
            "ends": _object(
                {**_ENDS, "chosen": _FLAG, "own": _object({"server": _FLAG, "mobile": _FLAG})}
            ),
            "device": {"enum": ["tun", "packet"]},
            "outer_network": _or_null(_object({"missing": _or_null(_TEXT)}, outer)),
            "links": _list(_object(hop)),
            "agents": _list(_object(agent)),
            "lateness_us": _object({**late, "n": _COUNT}),
            "untouched": counts,
            "series": _object(series, about="each 100 ms"),
            "assumed": _ASSUMED,
            **_ABOUT,
        }
    )


def _validate() -> Schema:
    times = _list(_POSITIVE, "seconds per transfer, by seed")
    cell = {
        **dict.fromkeys(("sender", "scheme", "verdict"), _TEXT),
        **dict.fromkeys(("n", "late"), _COUNT),
        **dict.fromkeys(("real_s", "simulated_s"), times),
        "ratio": {**_or_null(_POSITIVE), "description": "goodput, real / simulated"},
        "ci95": _INTERVAL,
    }
    source = {"enum": ["tcp_probe", "TCP_INFO"], "description": "where real windows come from"}
    failed = {
        "own_sender": _FLAG,
        **dict.fromkeys(("sender", "scheme", "error"), _TEXT),
        "seed": _COUNT,
    }
    counters = _counts("retransmissions", "fast_retransmits", "timeouts")
    pairs = _list(_object({"real": counters, "simulated": counters}), "by seed")
    parted = dict.fromkeys(("acked_segments", "real_segments", "simulated_segments"), _POSITIVE)
    compared = {"acks": _COUNT, "equal": _COUNT, "parted": _or_null(_object(parted))}
    cwnd = _list(_object(compared, about="congestion windows, real and simulated"), "by seed")
    return _object(
        {
            "schema_version": _VERSION,
            "lasthop": _TEXT,
            "assumed": _ASSUMED,
            "cells": _list(
                _object({**cell, "cwnd_source": source, "cwnd": cwnd}), "the kernel's senders"
            ),
            "controls": _list(_object({**cell, "counters": pairs}), "lasthop's own sender"),
            "failed": _list(_object(failed), "transfers that are not counted"),
            "ends": _or_null(_object(_ENDS, about="of the receivers")),
            **_ABOUT,
        }
    )


_OUTPUTS = {
    "run": _run,
    "compare": _compare,
    "sweep": _sweep,
    "check": _check,
    "baseline": _baseline,
    "reproduce": _reproduce,
    "inspect": _inspect,
    "replay": _replay,
    "link": _live_link,
    "validate": _validate,
    "schemes": _schemes,
    "doctor": _doctor,
    "new": _new,
    "trace": _trace,
    "advise": _advise,
}
#: Documents that have a schema.
NAMES = (*_OUTPUTS, "scenario")


def schema(name: str) -> Schema:
    """The JSON Schema of a document: one of `NAMES`."""
    if name == "scenario":
        from lasthop import _native

        found: Schema = _native.schema()
        return found
    command = "check --update" if name == "baseline" else name
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"lasthop {command} --json, version {VERSION}",
        **_OUTPUTS[name](),
    }
