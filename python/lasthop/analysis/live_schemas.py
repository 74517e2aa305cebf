"""JSON Schemas of what `lasthop link`, `gateway` and `validate` print with `--json`."""

from __future__ import annotations

from lasthop.analysis.schema_parts import (
    ABOUT,
    ASSUMED,
    COUNT,
    FLAG,
    IMPAIRMENTS,
    INTERVAL,
    POSITIVE,
    TEXT,
    TEXTS,
    THIS_VERSION,
    Schema,
    counts,
    list_of,
    object_of,
    or_null,
)

#: Congestion control of the kernels at the ends of a live link.
_ENDS = {"congestion_control": TEXT, "available": TEXTS}


def link() -> Schema:
    """The document of `lasthop link`."""
    hop = {
        **dict.fromkeys(("from", "to"), TEXT),
        "direction": {"enum": ["down", "up"]},
        **dict.fromkeys(
            (
                *("offered_frames", "delivered_frames", "lost_on_air", "dropped_at_queue"),
                *("marked_frames", "filtered_frames", "frames_in_transit", "bytes", "above_mtu"),
                *IMPAIRMENTS,
            ),
            COUNT,
        ),
    }
    counters = {"type": "object", "additionalProperties": COUNT}
    agent = {"scheme": TEXT, "counters": counters, "notices": COUNT, "dropped": counters}
    late = {**dict.fromkeys(("p50", "p99", "p99_9"), or_null(POSITIVE)), "max": POSITIVE}
    series = {"columns": TEXTS, "rows": list_of(list_of(or_null(POSITIVE)))}
    outer = dict.fromkeys(
        ("connections", "refused", "beyond_limit", "limit", "datagrams", "dropped"), COUNT
    )
    reasons = dict.fromkeys(("not_read", "not_taken"), COUNT)
    return object_of(
        {
            "schema_version": THIS_VERSION,
            **dict.fromkeys(("lasthop", "scenario", "scheme"), TEXT),
            **dict.fromkeys(("seed", "connections", "packets", "own_drops", "exit_status"), COUNT),
            **dict.fromkeys(("duration_s", "one_way_delay_s", "bound_us"), POSITIVE),
            "first_connection_s": {
                **or_null(POSITIVE),
                "description": "when the first TCP packet entered",
            },
            **dict.fromkeys(("real_time", "valid"), FLAG),
            "invalid": TEXTS,
            "own_drop_reasons": object_of(reasons),
            "ends": object_of(
                {**_ENDS, "chosen": FLAG, "own": object_of({"server": FLAG, "mobile": FLAG})}
            ),
            "device": {"enum": ["tun", "packet"]},
            "outer_network": or_null(object_of({"missing": or_null(TEXT)}, outer)),
            "links": list_of(object_of(hop)),
            "agents": list_of(object_of(agent)),
            "relays": list_of(
                object_of({"scheme": TEXT, "counters": counters}), "one for each connection"
            ),
            "notices_taken": COUNT,
            "lateness_us": object_of({**late, "n": COUNT}),
            "untouched": counters,
            "series": object_of(series, about="each 100 ms"),
            "assumed": ASSUMED,
            **ABOUT,
        }
    )


def gateway() -> Schema:
    """The document of `lasthop gateway`."""
    counters = {"type": "object", "additionalProperties": COUNT}
    divided = {
        **dict.fromkeys(("mobile", "server", "to_mobile"), TEXT),
        "to_server": or_null(TEXT),
        **dict.fromkeys(("held", "in_flight"), COUNT),
        "min_rtt_s": or_null(POSITIVE),
    }
    return object_of(
        {
            "schema_version": THIS_VERSION,
            **dict.fromkeys(("lasthop", "scheme", "wireless"), TEXT),
            "wired": or_null(TEXT),
            "duration_s": POSITIVE,
            **dict.fromkeys(
                (
                    *("packets", "shown", "rewritten", "kept", "injected", "not_injected"),
                    *("stored", "connections", "connections_seen", "connections_evicted"),
                ),
                COUNT,
            ),
            **dict.fromkeys(("untouched", "dropped", "agent"), counters),
            "bypassed": or_null(COUNT),
            "stopped": object_of({"times": COUNT, "unread": COUNT}),
            **ABOUT,
        },
        {"divided": list_of(object_of(divided), "of a state that SIGUSR1 asks for")},
    )


def validate() -> Schema:
    """The document of `lasthop validate`."""
    times = list_of(POSITIVE, "seconds per transfer, by seed")
    cell = {
        **dict.fromkeys(("sender", "scheme", "verdict"), TEXT),
        **dict.fromkeys(("n", "late"), COUNT),
        **dict.fromkeys(("real_s", "simulated_s"), times),
        "ratio": {**or_null(POSITIVE), "description": "goodput, real / simulated"},
        "ci95": INTERVAL,
    }
    source = {"enum": ["tcp_probe", "TCP_INFO"], "description": "where real windows come from"}
    failed = {
        "own_sender": FLAG,
        **dict.fromkeys(("sender", "scheme", "error"), TEXT),
        "seed": COUNT,
    }
    counters = counts("retransmissions", "fast_retransmits", "timeouts")
    pairs = list_of(object_of({"real": counters, "simulated": counters}), "by seed")
    parted = dict.fromkeys(("acked_segments", "real_segments", "simulated_segments"), POSITIVE)
    compared = {"acks": COUNT, "equal": COUNT, "parted": or_null(object_of(parted))}
    cwnd = list_of(object_of(compared, about="congestion windows, real and simulated"), "by seed")
    return object_of(
        {
            "schema_version": THIS_VERSION,
            "lasthop": TEXT,
            "assumed": ASSUMED,
            "cells": list_of(
                object_of({**cell, "cwnd_source": source, "cwnd": cwnd}), "the kernel's senders"
            ),
            "controls": list_of(object_of({**cell, "counters": pairs}), "lasthop's own sender"),
            "failed": list_of(object_of(failed), "transfers that are not counted"),
            "ends": or_null(object_of(_ENDS, about="of the receivers")),
            **ABOUT,
        }
    )


def validate_all() -> Schema:
    """The document of `lasthop validate --all`."""
    segment = object_of({"offset": COUNT, "bytes": COUNT, "t_s": POSITIVE})
    parted = {"segment": COUNT, "real": or_null(segment), "simulated": or_null(segment)}
    row = {
        **dict.fromkeys(("scheme", "ends"), TEXT),
        "n": COUNT,
        **dict.fromkeys(("real_s", "simulated_s"), list_of(POSITIVE, "seconds, by seed")),
        "ratio": {**or_null(POSITIVE), "description": "goodput, real / simulated"},
        "ci95": INTERVAL,
        "verdict": TEXT,
        "parted": list_of(
            or_null(object_of(parted, about="the first different data segment")), "by seed"
        ),
        "failed": list_of(object_of({"seed": COUNT, "error": TEXT})),
    }
    return object_of(
        {
            "schema_version": THIS_VERSION,
            "lasthop": TEXT,
            "assumed": ASSUMED,
            "rows": list_of(object_of(row), "by scheme"),
            **ABOUT,
        }
    )
