//! Random schemes of the catalogue, with settings.

use proptest::prelude::*;

/// Every scheme of the catalogue, with settings.
pub fn any_scheme() -> impl Strategy<Value = String> {
    let over = prop_oneof![
        Just("reno"),
        Just("newreno"),
        Just("tahoe"),
        Just("sack"),
        Just("rack"),
        Just("cubic"),
        Just("bbr"),
        Just("bbr3"),
        Just("copa")
    ];
    let control = (3u32..20, any::<[bool; 6]>(), over.clone()).prop_map(|(d, b, over)| {
        format!(
            "packet-control:dupack_threshold={d}:ack_filter={}:data_filter={}:ack_inject={}:\
             forward_even={}:integer_compat={}:strict={}:sender={over}",
            b[0], b[1], b[2], b[3], b[4], b[5]
        )
    });
    let snoop = (1u32..60, 1u64..200, 0u32..5, 0u32..3, any::<[bool; 9]>(), over.clone()).prop_map(
        |(cache, tick, most, slack, b, over)| {
            format!(
                "snoop:cache_packets={cache}:tick={tick}ms:max_retransmissions={most}:\
                 expected_slack={slack}:first_dupack_passes={}:backoff={}:\
                 ns2_suppress_expected={}:ns2_rtt_weights={}:ns2_rtt_samples={}:ns2_passing={}:\
                 ns2_sender_retransmissions={}:ns2_full_cache={}:uplink={}:sender={over}",
                b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8]
            )
        },
    );
    let hold = (any::<[bool; 4]>(), 1u32..40, 0u64..600, over.clone());
    let paced = (hold.clone(), 0u64..300, 0u32..6, 1u32..6, 1u32..8).prop_map(
        |((b, acks, hold, over), stall, gaps, compressed, flows)| {
            format!(
                "ack-pacing:rate={}:detect={}:stall={stall}ms:stall_gaps={gaps}:\
                 compressed={compressed}:max_flows={flows}:max_acks={acks}:max_hold={hold}ms:\
                 sender={over}",
                if b[0] { "link" } else { "measured" },
                b[1]
            )
        },
    );
    let given = (hold, prop::option::weighted(0.4, 10u64..3000), 0u32..5, 1u32..5).prop_map(
        |((b, acks, hold, over), rate, slack, least)| {
            let rate = rate.map_or(String::new(), |r| format!(":rate={r}kbps"));
            format!(
                "rate-control{rate}:window={}:pacing={}:shortest_rtt={}:slack={slack}:\
                 least_window={least}:max_acks={acks}:max_hold={hold}ms:sender={over}",
                b[0], b[1], b[2]
            )
        },
    );
    let split = (prop_oneof![1 => 200u64..2000, 3 => 2000u64..60_000], any::<bool>(), over.clone())
        .prop_map(|(buffer, late, over)| {
            format!("i-tcp:buffer={buffer}B:ack_on_delivery={late}:sender={over}")
        });
    let persists = (
        200u64..60_000,
        1u64..3000,
        1u64..40,
        prop_oneof![Just(0u64), 1u64..2000],
        any::<bool>(),
        over.clone(),
    )
        .prop_map(|(buffer, withhold, window, silence, link, over)| {
            format!(
                "m-tcp:buffer={buffer}B:withhold={withhold}B:window={window} \
                 segments:silence={silence}ms:link_events={link}:sender={over}"
            )
        });
    let repeats =
        (prop_oneof![Just("srp"), Just("tcp")], 1u64..40, 1u32..5, 200u64..60_000, over.clone())
            .prop_map(|(second, window, timer, buffer, over)| {
                format!(
                    "mtcp:second={second}:window={window} \
                     segments:timer={timer}:buffer={buffer}B:sender={over}"
                )
            });
    // Without `repeat_rate` a lost word of the end of an outage leaves the server held back for
    // good, as the setting says.
    let steered = (0.1..2.5f64, 0u32..30, 1u64..1500, 200u64..100_000, any::<[bool; 2]>(), over)
        .prop_map(|(gain, queue, period, buffer, b, over)| {
            format!(
                "rnf:gain={gain:.2}:queue={queue} \
                 segments:period={period}ms:buffer={buffer}B:resend={}:steer_server={}:\
                 sender={over}",
                b[0], b[1]
            )
        });
    let kind = prop_oneof![Just("sack"), Just("fack"), Just("rack")];
    let recovery = (kind, any::<[bool; 2]>()).prop_map(|(kind, b)| {
        format!("{kind}{}{}", if b[0] { "+prr" } else { "" }, if b[1] { "+dsack-undo" } else { "" })
    });
    let undo = prop_oneof![
        Just(""),
        Just("+f-rto"),
        Just("+eifel"),
        Just("+eifel-original"),
        Just("+f-rto+eifel")
    ];
    let patient = (
        prop_oneof![Just("reno"), Just("newreno"), Just("sack")],
        prop_oneof![Just(""), Just("+ncr"), Just("+ncr-aggressive"), Just("+dcr")],
    );
    let patient = patient.prop_map(|(kind, wait)| format!("{kind}{wait}"));
    let other = prop_oneof![
        Just("tahoe"),
        Just("fack+prr"),
        Just("rack+prr+dsack-undo"),
        Just("reno+fine-timer"),
        Just("newreno+fine-timer")
    ];
    let with_undo = (prop_oneof![patient, other.prop_map(String::from)], undo)
        .prop_map(|(base, undo)| format!("reno:recovery={base}{undo}"));
    let window = prop_oneof![
        Just("vegas"),
        Just("vegas:variant=linux"),
        Just("veno"),
        Just("westwood"),
        Just("westwood+"),
        Just("tibet"),
        Just("newreno-ff"),
        Just("santa-cruz"),
        Just("jtcp"),
        Just("jersey"),
        Just("casablanca"),
        Just("ideal-bwe"),
        Just("tcp-real"),
        Just("wtcp"),
        Just("cubic"),
    ];
    let under = prop_oneof![
        4 => Just(""),
        1 => Just(":recovery=newreno"),
        1 => Just(":recovery=rack+prr+f-rto"),
        1 => Just(":recovery=sack+prr"),
    ];
    let window = (window, under).prop_map(|(rule, recovery)| format!("{rule}{recovery}"));
    let detector = prop_oneof![
        Just("slide"),
        Just("biaz"),
        Just("centred"),
        Just("spike"),
        Just("zigzag"),
        Just("zbs"),
        Just("ncpld")
    ];
    // `report_is_ack=false` takes no ACK number of a report, which the verifier counts as
    // acknowledged all the same.
    let selective = (
        detector,
        any::<[bool; 5]>(),
        1u32..4,
        prop_oneof![Just("newreno"), Just("sack"), Just("reno")],
    )
        .prop_map(|(detector, b, k, kind)| {
            format!(
                "selective-tcp:detector={detector}:classify={}:snack={}:bandwidth_span={}ms:\
                 cwnd_rule={}:passive={}:k={k}:recovery={kind}+eln",
                if b[0] { "first" } else { "every" },
                if b[1] { "wireless" } else { "everything" },
                if b[2] { 100 } else { 0 },
                if b[3] { "mul" } else { "div" },
                b[4]
            )
        });
    let slots = prop::option::weighted(0.3, 0u32..4);
    let lhp = (2u32..6, slots, prop_oneof![Just("sack"), Just("smart")]).prop_map(
        |(fragments, more, ack)| {
            let slots = more.map_or(String::new(), |more| format!(":slots={}", fragments + more));
            format!("lhp:fragments={fragments}:ack={ack}{slots}")
        },
    );
    prop_oneof![
        6 => with_undo,
        6 => window,
        2 => Just("reno".to_string()),
        2 => Just("newreno".to_string()),
        1 => Just("tahoe".to_string()),
        1 => Just("reno:recovery=newreno".to_string()),
        2 => Just("reno:recovery=sack-ns2".to_string()),
        4 => recovery.prop_map(|r| format!("reno:recovery={r}")),
        2 => prop_oneof![
            Just("reno:recovery=packet-list"),
            Just("reno:recovery=packet-list+smart"),
        ].prop_map(str::to_string),
        2 => prop_oneof![
            Just("reno:recovery=selective-repeat"),
            Just("cubic:recovery=selective-repeat+timer=3"),
        ].prop_map(str::to_string),
        1 => Just("sack".to_string()),
        3 => lhp,
        3 => selective,
        2 => Just("cubic".to_string()),
        2 => prop_oneof![Just("bbr"), Just("bbr:recovery=newreno"), Just("bbr:recovery=sack")]
            .prop_map(str::to_string),
        2 => prop_oneof![
            Just("prague"),
            Just("prague:rtt_transition=0:classic_fallback=true"),
            Just("copa"),
            Just("copa:competes=false:delta=0.1")
        ]
            .prop_map(str::to_string),
        2 => prop_oneof![Just("bbr3"), Just("bbr3:recovery=reno"), Just("bbr3:recovery=sack-ns2")]
            .prop_map(str::to_string),
        2 => prop_oneof![
            Just("noor-aer"),
            Just("noor-eaer"),
            Just("noor-eaer:go_back_n=true:inflate=true"),
            Just("noor-eaer:recovery=newreno:max_window=8 segments"),
            Just("noor-aer:recovery=newreno+f-rto:max_rto=300ms")
        ].prop_map(str::to_string),
        2 => control,
        2 => paced,
        2 => given,
        2 => snoop,
        2 => split,
        2 => persists,
        1 => (1u64..20_000).prop_map(|wait| format!("tcp-f:wait={wait}ms")),
        2 => repeats,
        2 => steered,
    ]
}
