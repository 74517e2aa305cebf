//! Web sessions: clicks, pages of several objects, and clicks that break a page off.

use std::io::{Error, Read};
use std::path::Path;
use std::sync::atomic::AtomicBool;

use lasthop::scenario::{Files, Overrides, load};
use lasthop_sim::RunResult;
use lasthop_sim::verifier::Verifier;

struct NoFiles;

impl Files for NoFiles {
    fn open(&self, _: &Path) -> Result<Box<dyn Read>, Error> {
        Err(Error::other("no files here"))
    }
}

/// One flow over a last hop of 1 Mbit/s; 4 round trips of 40 ms and 0.8 s of sending make a page of
/// 100 kB last about a second.
fn run(app: &str, more: &str) -> RunResult {
    let text = format!(
        "duration = \"20 s\"\n[last_hop]\nrate = \"1 Mbps\"\n[tcp]\nprofile = \"rfc\"\nscheme = \
         \"newreno\"\n[[flow]]\nname = \"page\"\n{more}\napp = {app}"
    );
    let network = load(&text, None, &Overrides::default(), &NoFiles)
        .unwrap_or_else(|e| panic!("{e}"))
        .network;
    let mut verifier = Verifier::new(&network);
    let result = lasthop_sim::run(&network, 1, &mut verifier, &AtomicBool::new(false)).unwrap();
    verifier.finish_with(&result).unwrap_or_else(|e| panic!("{e:?}"));
    result
}

#[test]
fn the_user_thinks_when_the_page_is_complete() {
    let r = run(
        r#"{ kind = "session", pages = ["100 kB", "50 kB", "200 kB"], think = "3 s" }"#,
        "start = \"1 s\"",
    );
    let at: Vec<f64> = r.clicks.iter().map(|c| c.at_s.unwrap()).collect();
    let took: Vec<f64> = r.clicks.iter().map(|c| c.completed_s.unwrap()).collect();
    assert_eq!(
        r.clicks.iter().map(|c| (c.id.as_str(), c.bytes)).collect::<Vec<_>>(),
        [("page 1", 100_000), ("page 2", 50_000), ("page 3", 200_000)]
    );
    assert_eq!(at[0], 1.0);
    for k in 0..2 {
        assert!((at[k + 1] - at[k] - took[k] - 3.0).abs() < 1e-9, "{at:?} {took:?}");
    }
    assert!(took[1] < took[0] && took[0] < took[2] && took[2] > 1.6, "{took:?}");
    assert!(
        r.clicks.iter().all(|c| !c.broken_off && c.first_byte_s.unwrap() < c.completed_s.unwrap())
    );
    // The flows tell the same.
    assert!(r.flows.iter().zip(&took).all(|(f, t)| f.completed_s == Some(*t)));
}

#[test]
fn a_click_on_time_breaks_off_what_is_not_complete() {
    let session = |abort| {
        format!(
            "{{ kind = \"session\", pages = [\"500 kB\", \"50 kB\"], every = \"1 s\", abort = \
             {abort} }}"
        )
    };
    let (cut, whole) = (run(&session(true), ""), run(&session(false), ""));
    let [first, second] = &cut.clicks[..] else { panic!() };
    assert!(first.broken_off && first.completed_s.is_none() && first.first_byte_s.is_some());
    assert!(cut.flows[0].delivered_bytes < 200_000, "{}", cut.flows[0].delivered_bytes);
    assert!(!second.broken_off && second.at_s == Some(1.0));
    // Without it the first page goes on, and the second shares the link with it.
    assert!(whole.clicks.iter().all(|c| !c.broken_off && c.completed_s.is_some()));
    assert!(second.completed_s.unwrap() < whole.clicks[1].completed_s.unwrap());
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
fn what_comes_too_late_is_never_asked_for() {
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

/// Also behind a relay, whose first half ends before the second.
#[test]
fn a_split_page_is_complete_at_the_station() {
    let app = r#"{ kind = "session", pages = ["100 kB", "100 kB"], think = "2 s" }"#;
    let r = run(app, "scheme = \"i-tcp\"");
    let [first, second] = &r.clicks[..] else { panic!() };
    assert!((second.at_s.unwrap() - first.completed_s.unwrap() - 2.0).abs() < 1e-9);
    assert!(second.completed_s.unwrap() > 0.8);
}

/// A page that is asked for when the one before is complete fares as one that is asked for at that
/// time: the oracle, too, begins with it.
#[test]
fn it_does_not_matter_why_a_page_is_asked_for() {
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
        let took = |r: &RunResult| (r.clicks[1].completed_s.unwrap() * 1e6) as u64;
        assert_eq!(took(&waited), took(&timed), "{scheme}");
    }
}
