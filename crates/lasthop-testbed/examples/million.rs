//! The time of a million datagrams over a link with loss: `cargo run --release --example million`.

use std::time::{Duration, Instant};

use lasthop_testbed::{Datagram, Endpoint, Stack, Testbed};

/// Sends a datagram of 100 bytes each 10 µs, or nothing.
struct End {
    left: u32,
    next: Duration,
    received: u32,
}

impl Endpoint for End {
    fn handle(&mut self, _datagram: Datagram, _now: Duration) {
        self.received += 1;
    }

    fn poll_transmit(&mut self, now: Duration) -> Option<Datagram> {
        let at = self.next_timeout().filter(|at| *at <= now)?;
        (self.left, self.next) = (self.left - 1, at + Duration::from_micros(10));
        Some(Datagram::new(vec![0; 100]))
    }

    fn next_timeout(&mut self) -> Option<Duration> {
        (self.left > 0).then_some(self.next)
    }
}

fn main() {
    let testbed = Testbed::new().rate("200 Mbps").rtt("40 ms").loss("1 %").duration("20 s");
    let network = testbed.flow("mine").load().expect("a valid network");
    let mut sender = End { left: 1_000_000, next: Duration::ZERO, received: 0 };
    let mut receiver = End { left: 0, next: Duration::ZERO, received: 0 };
    let start = Instant::now();
    let run = network.run(1, [Stack::udp("mine", &mut sender, &mut receiver)]).expect("a run");
    let (took, down) = (start.elapsed(), &run.stack("mine").to_receiver);
    println!("{} sent, {} arrived: {took:?}", down.sent(), receiver.received);
}
