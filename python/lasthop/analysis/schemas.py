"""JSON Schemas (2020-12) of what the commands print with `--json`."""

from __future__ import annotations

from collections.abc import Iterator

from lasthop.analysis import fit_schemas, live_schemas, metrics, paired
from lasthop.analysis.schema_parts import (
    ABOUT,
    ASSUMED,
    COMMAND,
    COUNT,
    ELAPSED,
    ERROR,
    FLAG,
    IMPAIRMENTS,
    INTERVAL,
    LIMITED_BY,
    NUMBER,
    POSITIVE,
    SPREAD,
    TEXT,
    TEXTS,
    THIS_VERSION,
    VERSION,
    Schema,
    counts,
    list_of,
    object_of,
    or_null,
)

PROCESSING_TIMES: Schema = {
    **FLAG,
    "description": "the times that receivers take to answer are drawn by seed",
}


def _flow() -> Schema:
    required = {
        **dict.fromkeys(("id", "group", "role", "app", "from", "to", "slots"), TEXT),
        "scheme": {**or_null(TEXT), "description": "null for datagrams"},
        "goodput_bps": or_null(POSITIVE),
        "delivered_bytes": COUNT,
        "completed_s": or_null(POSITIVE),
        "empty_path_s": or_null(POSITIVE),
        "first_byte_s": or_null(POSITIVE),
        "sent_segments": COUNT,
        "retransmissions": counts("total", "spurious"),
        "timeouts": counts("total", "spurious", "ack_loss"),
        "fast_retransmits": counts("total", "spurious"),
        "cwnd_reductions": COUNT,
        "burst_segments": or_null(COUNT),
        "limited_by": or_null(LIMITED_BY),
        "rtt_s": SPREAD,
        "one_way_delay_s": SPREAD,
    }
    reasons = ("old_timestamp", "beyond_window", "zero_window", "challenged", "acks")
    discarded = object_of(dict.fromkeys(reasons, COUNT), {"no_connection": COUNT})
    notices = counts("ersn", "eln", "ignored", "held_timeouts")
    call = {
        **dict.fromkeys(("sent", "late", "lost"), COUNT),
        "deadline_s": POSITIVE,
        "late_or_lost_share": or_null({**POSITIVE, "maximum": 1}),
        "mos": or_null(POSITIVE),
    }
    frames = {
        **dict.fromkeys(("sent", "late", "lost"), COUNT),
        "deadline_s": POSITIVE,
        "late_or_lost_share": or_null({**POSITIVE, "maximum": 1}),
    }
    requests = {
        **dict.fromkeys(("sent", "repeated", "answered"), COUNT),
        "answered_per_s": POSITIVE,
        "response_s": SPREAD,
    }
    video = {
        **dict.fromkeys(("stalls", "switches", "chunks"), COUNT),
        **dict.fromkeys(("played_s", "stalled_s"), POSITIVE),
        **dict.fromkeys(("startup_s", "bitrate_bps"), or_null(POSITIVE)),
        "rebuffer_ratio": or_null({**POSITIVE, "maximum": 1}),
    }
    unanswered = {"enum": ["syn", "syn_ack", "data", "probe"]}
    more = {
        "acknowledged_undelivered_bytes": COUNT,
        "notices": notices,
        "arrived_s": POSITIVE,
        "discarded": discarded,
        "gave_up": object_of({"at_s": POSITIVE, "unanswered": unanswered}),
        "bounds": list_of(object_of(dict.fromkeys(("limited_by", "setting", "value"), TEXT))),
        "call": object_of(call),
        "frames": object_of(frames),
        "requests": object_of(requests),
        "video": object_of(video),
    }
    return object_of(required, more)


def _link() -> Schema:
    counts = ("offered_frames", "delivered_frames", "lost_on_air", "dropped_at_queue")
    required = {
        **dict.fromkeys(("from", "to"), TEXT),
        "radio": FLAG,
        **dict.fromkeys((*counts, "marked_frames"), COUNT),
        "utilisation": or_null(POSITIVE),
        "capacity_bps": or_null(POSITIVE),
        "busy_s": POSITIVE,
        "queue_delay_s": SPREAD,
    }
    more: tuple[str, ...] = ("attempts", "arq_discards", "collisions", "lost_in_collision")
    more += ("queue_peak_frames", "filtered_frames", *IMPAIRMENTS)
    return object_of(required, dict.fromkeys(more, or_null(COUNT)))


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
    agent = {"node": TEXT, "scheme": TEXT, "counters": {"type": "object"}}
    required = {
        "schema_version": THIS_VERSION,
        **dict.fromkeys(("lasthop", "scenario", "scheme"), TEXT),
        "seed": COUNT,
        "duration_s": POSITIVE,
        "measured_s": POSITIVE,
        "assumed": ASSUMED,
        "warnings": TEXTS,
        "flows": list_of(_flow()),
        "links": list_of(_link(), "one-way links"),
        "agents": list_of(object_of(agent, {"limited_by": or_null(LIMITED_BY)})),
        "traffic_bits": object_of(
            dict.fromkeys(traffic, COUNT),
            dict.fromkeys(("duplicated_by_link", "corrupted", "discarded", "filtered"), COUNT),
        ),
        "classifier": or_null({"type": "object"}),
        "command": COMMAND,
    }
    lists = {"clicks": list_of({"type": "object"}), "handovers": list_of({"type": "object"})}
    return object_of(required, lists)


def numbers_of(part: str) -> list[str]:
    """Names of the numbers that a flow or a link of a result may have; those of nested tables have
    a dot. `part` is "flows" or "links".
    """
    return list(_numbers({"flows": _flow, "links": _link}[part]()))


def _numbers(found: Schema) -> Iterator[str]:
    for key, value in found.get("properties", {}).items():
        kind = value.get("anyOf", [value])[0]
        if kind.get("type") in ("number", "integer"):
            yield key
        yield from (f"{key}.{inner}" for inner in _numbers(kind))


def _metric(name: str) -> Schema:
    label, _, meaning = (metrics.METRICS | metrics.SERIES_METRICS)[name]
    return _metric_of(f"{label}: {meaning}")


def _metric_of(about: str) -> Schema:
    quantile = object_of({"value": or_null(NUMBER), "ci95": INTERVAL})
    mean = {"mean": or_null(NUMBER), "ci95": INTERVAL}
    difference = {
        **mean,
        "p": or_null({"type": "number", "minimum": 0, "maximum": 1}),
        "p_holm": or_null({"type": "number", "minimum": 0, "maximum": 1}),
        "seeds_needed": or_null(COUNT),
    }
    return object_of(
        {
            **mean,
            "sd": or_null(POSITIVE),
            "quantiles": object_of(dict.fromkeys(paired.QUANTILES, quantile)),
            "ratio_to_first": object_of({**mean, "bootstrap_ci95": INTERVAL}),
            "difference_to_first": object_of(difference),
            "correlation_to_first": or_null({"type": "number", "minimum": -1, "maximum": 1}),
        },
        about=about,
    )


def _group_metric(key: str) -> Schema:
    label, _, meaning = metrics.GROUP_METRICS[key]
    found = {"mean": or_null(NUMBER), "sd": or_null(POSITIVE), "ci95": INTERVAL}
    return object_of(found, about=f"{label}: {meaning}")


def _compare() -> Schema:
    scheme = {
        **dict.fromkeys(("label", "name"), TEXT),
        "settings": {"type": "object"},
        **dict.fromkeys(("slots", "warnings", "assumed"), TEXTS),
        "deterministic": FLAG,
        "processing_times": PROCESSING_TIMES,
        "runs": COUNT,
        **{name: _metric(name) for name in metrics.METRICS},
    }
    measures = {name: _metric(name) for name in metrics.SERIES_METRICS}
    numbers = {key: _group_metric(key) for key in metrics.GROUP_METRICS}
    scheme_of_group = {**or_null(TEXT), "description": "null for datagrams"}
    group = {"name": TEXT, "flows": COUNT, "role": TEXT, "scheme": scheme_of_group, **numbers}
    groups = list_of(object_of(group), "one for each [[flow]]")
    roles = list_of(object_of({"role": TEXT, "flows": COUNT, **numbers}), "all flows of each role")
    point = {
        "set": {"type": "object", "additionalProperties": TEXT},
        "schemes": list_of(
            object_of(
                scheme, {"needs": {"type": "object"}, "groups": groups, "roles": roles, **measures}
            )
            | {"patternProperties": {r"^agents\.": _metric_of("counter of an agent or a relay")}}
        ),
    }
    return object_of(
        {
            "schema_version": THIS_VERSION,
            **dict.fromkeys(("lasthop", "scenario", "scenario_sha256"), TEXT),
            "command": COMMAND,
            "seeds": list_of(COUNT),
            "assumed": ASSUMED,
            "points": list_of(object_of(point)),
            "failed": ERROR,
            "elapsed_s": ELAPSED,
        },
        {"claims": list_of(_claim(), "of the scenario file")},
    )


def _sweep() -> Schema:
    return object_of(
        {
            "schema_version": THIS_VERSION,
            **dict.fromkeys(("lasthop", "build", "scenario", "scenario_sha256", "id"), TEXT),
            "command": COMMAND,
            "schemes": TEXTS,
            "warnings": TEXTS,
            "assumed": ASSUMED,
            "shard": {"type": "array", "items": COUNT, "minItems": 2, "maxItems": 2},
            "points": COUNT,
            "runs": {**COUNT, "description": "finished runs"},
            "reused": {**COUNT, "description": "runs of earlier calls"},
            "missing": COUNT,
            "failed": list_of(
                object_of({"point": COUNT, "scheme": TEXT, "seed": COUNT, "error": TEXT})
            ),
            "elapsed_s": ELAPSED,
        }
    )


def _check() -> Schema:
    result = {
        "gate": TEXT,
        "scheme": TEXT,
        "set": {"type": "object", "additionalProperties": TEXT},
        "ratio": or_null(NUMBER),
        "ci95": INTERVAL,
        "runs": COUNT,
        "verdict": {"enum": ["ok", "worse", "undecided"]},
        "why": TEXT,
        "deterministic": {
            **FLAG,
            "description": "one run, because at most processing times are drawn by seed",
        },
        "processing_times": PROCESSING_TIMES,
    }
    return object_of(
        {
            "schema_version": THIS_VERSION,
            **dict.fromkeys(("lasthop", "scenario", "baseline", "baseline_build"), TEXT),
            "command": COMMAND,
            "ok": FLAG,
            "results": list_of(object_of(result)),
            "assumed": ASSUMED,
            "failed": ERROR,
            "elapsed_s": ELAPSED,
        }
    )


def _claim() -> Schema:
    numbers = or_null({"anyOf": [NUMBER, list_of(or_null(NUMBER))]})
    found: Schema = {
        **dict.fromkeys(("id", "text", "why", "unit", "display"), TEXT),
        "kind": {"enum": ["order", "about", "bound", "shape"]},
        "paper": {**or_null({"anyOf": [NUMBER, TEXT]}), "description": "number or words"},
        "measured": numbers,
        "ci95": {"anyOf": [INTERVAL, list_of(INTERVAL)]},
        "verdict": {"enum": ["holds", "differs", "undecided"]},
        "n": {**COUNT, "description": "runs, or pairs of runs"},
    }
    return object_of(found)


def _reproduce() -> Schema:
    figure = {
        **dict.fromkeys(("id", "title"), TEXT),
        "modified": FLAG,
        "runs": COUNT,
        "claims": list_of(_claim()),
        "assumed": ASSUMED,
        "failed": ERROR,
        "files": TEXTS,
    }
    return object_of(
        {
            "schema_version": THIS_VERSION,
            "lasthop": TEXT,
            "figures": list_of(object_of(figure)),
            **ABOUT,
        }
    )


def _inspect() -> Schema:
    counts = (
        *("delivered_bytes", "sent_segments", "agent_segments", "retransmissions"),
        *("spurious_retransmissions", "timeouts", "fast_retransmits", "lost_acks"),
        *("suppressed_segments", "suppressed_acks"),
    )
    totals = {
        **dict.fromkeys(("goodput_bps", "rtt_min_s", "rtt_median_s"), or_null(POSITIVE)),
        **dict.fromkeys(counts, COUNT),
        "losses": {"type": "object", "description": "data, by fate"},
        "suppressed_by": TEXT,
    }
    stall = {
        **dict.fromkeys(("start_s", "end_s", "duration_s"), POSITIVE),
        **dict.fromkeys(("cause", "sentence"), TEXT),
        "gaps": list_of({"type": "object"}, "gaps in the in-order delivery, with the evidence"),
    }
    connection = {
        **dict.fromkeys(("title", "scheme", "slots", "sender"), TEXT),
        "path": TEXTS,
        "totals": object_of(totals, {"filtered_acks": COUNT}),
        "limited_by": {"type": "object", "description": "shares of time"},
        "stall_threshold_s": POSITIVE,
        "stalls": list_of(object_of(stall)),
    }
    return object_of(
        {
            "schema_version": THIS_VERSION,
            "json_version": {**THIS_VERSION, "description": "the same as schema_version"},
            **dict.fromkeys(("lasthop", "scenario", "flow"), TEXT),
            "seed": COUNT,
            "duration_s": POSITIVE,
            "assumed": ASSUMED,
            "outages": list_of({"type": "object"}),
            "connections": list_of(object_of(connection)),
            **ABOUT,
        }
    )


def _replay() -> Schema:
    counts = (
        *("packets", "other_interfaces", "tcp", "cut_short", "flows", "flows_evicted"),
        *("forwarded", "rewritten", "kept", "injected", "not_injected", "written"),
    )
    by_reason = {"type": "object", "additionalProperties": COUNT}
    return object_of(
        {
            "schema_version": THIS_VERSION,
            **dict.fromkeys(("lasthop", "scheme", "mobile"), TEXT),
            "interface": or_null(TEXT),
            **dict.fromkeys(counts, COUNT),
            "encapsulations": {**by_reason, "description": "packets of tcp inside tunnels"},
            "untouched": {**by_reason, "description": "packets not shown to the agent"},
            "dropped": {**by_reason, "description": "packets that the agent dropped"},
            "agent": {"type": "object", "description": "its counters"},
            "assumed": ASSUMED,
            "notes": TEXTS,
            **ABOUT,
        },
        {"link_reports": {**COUNT, "description": "reports of links passed to the agent"}},
    )


def _schemes() -> Schema:
    entry = {
        **dict.fromkeys(("name", "family", "summary", "paper"), TEXT),
        "group": or_null(TEXT),
        "slots": {"type": "object", "additionalProperties": TEXT},
        "changes": {"type": "object", "additionalProperties": FLAG},
        "settings": list_of({"type": "object"}),
        "assumptions": TEXTS,
        "evidence": list_of({"type": "object"}),
        **dict.fromkeys(("unsafe", "simulation_only"), FLAG),
        "unsafe_where": or_null(TEXT),
    }
    about = "the catalogue, or the scheme that was named; a list without version and command"
    return list_of(object_of(entry), about)


def _doctor() -> Schema:
    check = {"what": TEXT, "ok": FLAG, "found": TEXT, "remedy": TEXT}
    link = {**FLAG, "description": "`lasthop link` can run on this machine"}
    return object_of(
        {
            "schema_version": THIS_VERSION,
            "link": link,
            "checks": list_of(object_of(check)),
            **ABOUT,
        }
    )


def _new() -> Schema:
    following = {**TEXT, "description": "the command to try next"}
    return object_of({"schema_version": THIS_VERSION, "written": TEXTS, "next": following, **ABOUT})


def _trace() -> Schema:
    directions = ("down", "up")
    rate = {**or_null(POSITIVE), "description": "null if the direction was not measured"}
    gaps = object_of({"count": COUNT, "total_s": POSITIVE}, about="times without measurement")
    times = or_null(object_of(dict.fromkeys(("minimum", "median", "p95"), POSITIVE)))
    skipped = {"reason": TEXT, "rows": COUNT, "lines": list_of(COUNT, "the first of them")}
    return object_of(
        {
            "schema_version": THIS_VERSION,
            "lasthop": TEXT,
            "format": {**TEXT, "description": "format of the file, or of the files joined by +"},
            "duration_s": {**POSITIVE, "description": "from the first row to the end of the last"},
            "rows": COUNT,
            "mean_rate_bps": object_of(dict.fromkeys(directions, rate), about="of measured time"),
            "gaps": object_of(dict.fromkeys(directions, gaps)),
            "rtt_s": times,
            "delay_s": object_of(dict.fromkeys(directions, times), about="one way"),
            "loss": or_null({**POSITIVE, "maximum": 1, "description": "share of the packets"}),
            "skipped": {**COUNT, "description": "rows of the files that were left out"},
            "skipped_rows": list_of(object_of(skipped)),
            "sources": list_of(object_of({"file": TEXT, "clock": TEXT})),
            "notes": {**TEXTS, "description": "what was assumed or changed while reading"},
            "written": {**TEXTS, "description": "files that the command wrote"},
            **ABOUT,
        }
    )


def _fit() -> Schema:
    return object_of({"schema_version": THIS_VERSION, **fit_schemas.fit(), **ABOUT})


def _advise() -> Schema:
    return object_of({"schema_version": THIS_VERSION, **fit_schemas.advice(), **ABOUT})


def _evaluate() -> Schema:
    texts = dict.fromkeys(("cell", "title", "number", "metric"), TEXT)
    known = dict.fromkeys(("margin", "limit", "difference", "p_holm"), or_null(NUMBER))
    number = {
        **texts,
        "set": {"type": "object", "additionalProperties": TEXT},
        "rfc9743": TEXTS,
        "bbr": list_of(COUNT),
        "better": {"enum": ["higher", "lower"]},
        **known,
        "n": COUNT,
        "means": {"type": "object", "additionalProperties": or_null(NUMBER)},
        "ci95": or_null(INTERVAL),
        "verdict": {"enum": ["better", "no worse", "worse", "undecided"]},
    }
    tally = {"tally": {"type": "object", "additionalProperties": COUNT}}
    group = {**dict.fromkeys(("id", "letter", "title"), TEXT), **tally}
    card = {
        "schema_version": THIS_VERSION,
        **dict.fromkeys(("suite", "suite_sha256", "scheme", "baseline"), TEXT),
        "quick": {"type": "boolean"},
        "seeds": list_of(COUNT),
        **tally,
        "groups": list_of(object_of({**group, "numbers": list_of(object_of(number))})),
        "failed": {"type": "object", "additionalProperties": TEXT},
        "left_out": {"type": "object", "additionalProperties": TEXT},
    }
    return object_of({"cards": list_of(object_of(card))})


def _baseline() -> Schema:
    case = {
        "point": COUNT,
        "set": {"type": "object", "additionalProperties": TEXT},
        "scheme": TEXT,
        "seeds": list_of(COUNT),
        "metrics": {"type": "object", "description": "values by metric, in the order of seeds"},
    }
    return object_of(
        {
            "schema_version": THIS_VERSION,
            **dict.fromkeys(("lasthop", "build", "scenario", "scenario_sha256"), TEXT),
            "command": COMMAND,
            "file": or_null(TEXT),
            "text": {**or_null(TEXT), "description": "the scenario"},
            "settings": list_of(TEXTS),
            "last_hop": {"type": "object", "additionalProperties": TEXT},
            "schemes": TEXTS,
            "vary": {"type": "object", "additionalProperties": TEXTS},
            "seeds": COUNT,
            "gates": TEXTS,
            "cases": list_of(object_of(case)),
        },
        {"assumed": ASSUMED, "elapsed_s": ELAPSED, "draw_starts": FLAG},
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
    "link": live_schemas.link,
    "gateway": live_schemas.gateway,
    "validate": live_schemas.validate,
    "validate-all": live_schemas.validate_all,
    "evaluate": _evaluate,
    "schemes": _schemes,
    "doctor": _doctor,
    "new": _new,
    "trace": _trace,
    "fit": _fit,
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
    command = {"baseline": "check --update", "fit": "trace fit"}.get(name, name)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"lasthop {command} --json, version {VERSION}",
        **_OUTPUTS[name](),
    }
