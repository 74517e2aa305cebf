//! Web sessions: clicks, pages of several objects, and clicks that abort a page.

use std::sync::atomic::AtomicBool;

use crate::support::network_of;
use lasthop_sim::RunResult;
use lasthop_sim::verifier::Verifier;

/// One flow over a last hop of 1 Mbit/s. A page of 100 kB takes about one second: four round trips
/// of 40 ms and 0.8 s of serialization.
fn run(app: &str, more: &str) -> RunResult {
    let text = format!(
        "duration = \"20 s\"\n\
         [last_hop]\nrate = \"1 Mbps\"\n\
         [tcp]\nprofile = \"rfc\"\nscheme = \"newreno\"\n\
         [[flow]]\nname = \"page\"\n{more}\napp = {app}"
    );
    let network = network_of(&text);
    let mut verifier = Verifier::new(&network);
    let result = lasthop_sim::run(&network, 1, &mut verifier, &AtomicBool::new(false)).unwrap();
    verifier.finish_with(&result).unwrap_or_else(|e| panic!("{e:?}"));
    result
}

#[test]
fn the_think_time_starts_when_the_page_is_complete() {
    let r = run(
        r#"{ kind = "session", pages = ["100 kB", "50 kB", "200 kB"], think = "3 s" }"#,
        "start = \"1 s\"",
    );
    let at: Vec<f64> = r.clicks.iter().map(|c| c.at_s.unwrap()).collect();
    let load_times: Vec<f64> = r.clicks.iter().map(|c| c.completed_s.unwrap()).collect();
    assert_eq!(
        r.clicks.iter().map(|c| (c.id.as_str(), c.bytes)).collect::<Vec<_>>(),
        [("page 1", 100_000), ("page 2", 50_000), ("page 3", 200_000)]
    );
    assert_eq!(at[0], 1.0);
    for k in 0..2 {
        assert!((at[k + 1] - at[k] - load_times[k] - 3.0).abs() < 1e-9, "{at:?} {load_times:?}");
    }
    assert!(
        load_times[1] < load_times[0] && load_times[0] < load_times[2] && load_times[2] > 1.6,
        "{load_times:?}"
    );
    assert!(
        r.clicks.iter().all(|c| !c.broken_off && c.first_byte_s.unwrap() < c.completed_s.unwrap())
    );
    // The results of the flows agree.
    assert!(r.flows.iter().zip(&load_times).all(|(f, t)| f.completed_s == Some(*t)));
}

#[test]
fn a_timed_click_aborts_an_incomplete_page() {
    let session = |abort| {
        format!(
            "{{ kind = \"session\", pages = [\"500 kB\", \"50 kB\"], every = \"1 s\", \
             abort = {abort} }}"
        )
    };
    let (aborted, complete) = (run(&session(true), ""), run(&session(false), ""));
    let [first, second] = &aborted.clicks[..] else { panic!() };
    assert!(first.broken_off && first.completed_s.is_none() && first.first_byte_s.is_some());
    assert!(aborted.flows[0].delivered_bytes < 200_000, "{}", aborted.flows[0].delivered_bytes);
    assert!(!second.broken_off && second.at_s == Some(1.0));
    // Without abort the first page continues, and the second shares the link with it.
    assert!(complete.clicks.iter().all(|c| !c.broken_off && c.completed_s.is_some()));
    assert!(second.completed_s.unwrap() < complete.clicks[1].completed_s.unwrap());
}

#[test]
fn a_page_is_complete_with_its_last_object() {
    let r = run(
        r#"{ kind = "session", pages = [["100 kB", "5 kB", "20 kB"], "10 kB"], think = "1 s" }"#,
        "",
    );
    let objects: Vec<f64> = r.flows[..3].iter().map(|f| f.completed_s.unwrap()).collect();
    let page = &r.clicks[0];
    assert_eq!((page.objects, page.bytes), (3, 125_000));
    assert_eq!(page.completed_s, objects.iter().copied().reduce(f64::max));
    assert_eq!(
        page.first_byte_s,
        r.flows[..3].iter().map(|f| f.first_byte_s.unwrap()).reduce(f64::min)
    );
    assert!((r.clicks[1].at_s.unwrap() - page.completed_s.unwrap() - 1.0).abs() < 1e-9);
}

#[test]
fn pages_after_the_end_are_not_requested() {
    let r =
        run(r#"{ kind = "session", pages = ["100 kB", "100 kB", "100 kB"], think = "10 s" }"#, "");
    assert_eq!(r.clicks.iter().map(|c| c.at_s.is_some()).collect::<Vec<_>>(), [true, true, false]);
    assert_eq!((r.flows[2].sent_segments, r.flows[2].goodput_bps), (0, 0.0));
    let r = run(
        r#"{ kind = "session", pages = ["100 kB", "5 MB", "100 kB"], think = "1 s" }"#,
        "stop = \"5 s\"",
    );
    assert_eq!(
        r.clicks.iter().map(|c| (c.at_s.is_some(), c.broken_off)).collect::<Vec<_>>(),
        [(true, false), (true, true), (false, false)]
    );
}

/// The page is complete at the station, even though the first half of a split connection finishes
/// earlier.
#[test]
fn a_split_page_is_complete_at_the_station() {
    let app = r#"{ kind = "session", pages = ["100 kB", "100 kB"], think = "2 s" }"#;
    let r = run(app, "scheme = \"i-tcp\"");
    let [first, second] = &r.clicks[..] else { panic!() };
    assert!((second.at_s.unwrap() - first.completed_s.unwrap() - 2.0).abs() < 1e-9);
    assert!(second.completed_s.unwrap() > 0.8);
}

/// A page requested after completion of the previous one has the same loading time as a page
/// requested at that time by a schedule. The oracle, too, starts with the page.
#[test]
fn the_reason_for_a_request_does_not_change_the_loading_time() {
    for scheme in ["newreno", "ideal-bwe"] {
        let more = format!("scheme = \"{scheme}\"\nloss = \"3 %\"");
        let waited =
            run(r#"{ kind = "session", pages = ["1 kB", "500 kB"], think = "2 s" }"#, &more);
        let at = waited.clicks[1].at_s.unwrap();
        let timed = run(
            &format!(
                "{{ kind = \"session\", pages = [\"1 kB\", \"500 kB\"], every = \"{} ns\" }}",
                (at * 1e9) as u64
            ),
            &more,
        );
        let load_time = |r: &RunResult| (r.clicks[1].completed_s.unwrap() * 1e6) as u64;
        assert_eq!(load_time(&waited), load_time(&timed), "{scheme}");
    }
}
