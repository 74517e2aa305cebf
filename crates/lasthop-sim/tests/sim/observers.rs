//! What observers get besides events: states of senders, and captures per interface.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::rc::Rc;
use std::sync::atomic::AtomicBool;

use lasthop::units::Duration;
use lasthop_sim::capture::Capture;
use lasthop_sim::events::{Event, Kind, Observer, SenderState};
use lasthop_wire::{CaptureReader, parse};

use crate::support::{DOWN, last_hop, lose, rfc};

#[derive(Default)]
struct States {
    states: Vec<SenderState>,
    cwnd: Option<f64>,
}

impl Observer for States {
    fn on_event(&mut self, event: &Event<'_>) {
        if event.kind == Kind::Cwnd {
            self.cwnd = Some(event.value);
        }
    }

    fn on_sender(&mut self, state: &SenderState) {
        // A change is reported as an event before the state with it.
        if let Some(cwnd) = self.cwnd {
            assert_eq!(state.window.cwnd, cwnd);
        }
        self.states.push(*state);
    }
}

#[test]
fn states_of_a_sender_are_those_of_its_events() {
    let mut network = last_hop(vec![rfc("newreno", 200)], Duration::secs(100));
    network.links[DOWN].loss = lose(&["30:1", "31:1"], &[]);
    let mut observer = States::default();
    let result = lasthop_sim::run(&network, 1, &mut observer, &AtomicBool::new(false)).unwrap();
    let states = observer.states;
    assert!(states.is_sorted_by_key(|s| s.t));
    assert!(states.iter().all(|s| s.flow == 0 && !s.second_half && s.pipe <= s.flight));
    assert_eq!(states.last().unwrap().flight, 0, "everything is acknowledged");
    let samples: Vec<f64> = states.iter().filter_map(|s| s.rtt).map(|d| d.as_secs()).collect();
    let mean = samples.iter().sum::<f64>() / samples.len() as f64;
    assert!((mean - result.flows[0].rtt_s.mean.unwrap()).abs() < 1e-9);
}

/// An output that stays readable after the capture has closed it.
#[derive(Clone, Default)]
struct Shared(Rc<RefCell<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_capture_per_interface_has_each_packet_once_and_cut() {
    let network = last_hop(vec![rfc("newreno", 50)], Duration::secs(100));
    let mut files: BTreeMap<String, Shared> = BTreeMap::new();
    let capture = Capture::per_interface(&network, Some(80), |name| {
        Ok(files.entry(name.to_owned()).or_default().clone())
    });
    let mut capture = capture.unwrap();
    lasthop_sim::run(&network, 1, &mut capture, &AtomicBool::new(false)).unwrap();
    assert_eq!(capture.finish_all().unwrap().len(), files.len());
    assert_eq!(files.keys().collect::<Vec<_>>(), ["n0-n1", "n1-n0", "n1-n2", "n2-n1"]);
    for (name, file) in &files {
        let bytes = file.0.borrow();
        let mut reader = CaptureReader::new(&bytes[..]).unwrap();
        let mut offsets = BTreeSet::new();
        while let Some(packet) = reader.next_packet().unwrap() {
            assert_eq!(packet.data.len(), (packet.original_len as usize).min(80));
            assert_eq!(reader.interfaces().len(), 1);
            if packet.original_len > 500 {
                let tcp = parse(&packet.data).unwrap();
                assert!(offsets.insert(tcp.seq), "a segment twice");
            }
        }
        let carries_data = ["n0-n1", "n1-n2"].contains(&name.as_str());
        assert_eq!(offsets.len(), if carries_data { 50 } else { 0 }, "{name}");
    }
}
