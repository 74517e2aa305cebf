//! quinn's congestion controllers under lasthop's TCP, with the loss recovery of Linux.

use std::any::Any;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use lasthop_testbed::rules::{
    Ack, Loss, LossClass, LossKind, Start, Time, Window, WindowRule, window_rule,
};
use lasthop_testbed::{Stack, Testbed};
use quinn_proto::congestion::{Controller, ControllerFactory};
use quinn_proto::{RttEstimator, TransportConfig};

use crate::quinn;

/// A controller of quinn as a window rule, for [`Testbed::rule`].
pub struct QuinnRule<F> {
    factory: Arc<F>,
    controller: Option<Box<dyn Controller>>,
    rtt: RttEstimator,
    epoch: Instant,
}

impl<F: ControllerFactory> QuinnRule<F> {
    /// A rule for a path with this estimate of its round-trip time, see [`rtt_estimator`].
    pub fn new(factory: Arc<F>, rtt: RttEstimator) -> QuinnRule<F> {
        QuinnRule { factory, controller: None, rtt, epoch: Instant::now() }
    }

    fn at(&self, now: Time) -> Instant {
        self.epoch + Duration::from_nanos(now.0)
    }
}

#[window_rule]
impl<F: ControllerFactory + Send + Sync> WindowRule for QuinnRule<F> {
    fn on_established(&mut self, window: &mut Window, start: &Start) {
        let mtu = u16::try_from(start.mss).unwrap_or(u16::MAX);
        let controller = self.factory.clone().build(self.at(start.now), mtu);
        window.cwnd = controller.window() as f64;
        self.controller = Some(controller);
    }

    fn on_ack(&mut self, window: &mut Window, ack: &Ack) {
        let now = self.at(ack.now);
        let sent = now - ack.rtt.map_or(self.rtt.get(), |rtt| Duration::from_nanos(rtt.0));
        let Some(controller) = &mut self.controller else { return };
        controller.on_ack(now, sent, ack.bytes, false, &self.rtt);
        window.cwnd = controller.window() as f64;
    }

    fn on_loss(&mut self, window: &mut Window, loss: &Loss) -> LossClass {
        let now = self.at(loss.now);
        let Some(controller) = &mut self.controller else { return LossClass::Unclassified };
        let persistent = loss.kind == LossKind::Timeout;
        controller.on_congestion_event(now, now, persistent, u64::from(loss.mss));
        window.cwnd = controller.window() as f64;
        window.ssthresh = controller.metrics().ssthresh.map_or(window.cwnd, |s| s as f64);
        LossClass::Unclassified
    }
}

/// An estimate of quinn for a path with this round-trip time, such as `"40 ms"`. A controller
/// wants one with each acknowledgment and quinn has no function that makes one, so this is that of a
/// short download over an empty path.
///
/// # Panics
///
/// If the text is no time.
pub fn rtt_estimator(rtt: &str) -> RttEstimator {
    let spy = Arc::new(Spy(Arc::default()));
    let mut transport = TransportConfig::default();
    transport.congestion_controller_factory(spy.clone());
    let (mut server, mut client) = quinn::download(10_000, transport);
    let testbed = Testbed::new().rate("1 Gbps").rtt(rtt).duration("60 s").flow("quic");
    let stack = Stack::udp("quic", &mut server, &mut client);
    testbed.run(1, [stack]).expect("a round-trip time");
    let found = spy.0.lock().expect("no thread has panicked");
    found.expect("an acknowledgment within a minute")
}

/// A controller that keeps the last estimate it was given.
#[derive(Clone)]
struct Spy(Arc<Mutex<Option<RttEstimator>>>);

impl ControllerFactory for Spy {
    fn build(self: Arc<Self>, _: Instant, _: u16) -> Box<dyn Controller> {
        Box::new(Spy::clone(&self))
    }
}

impl Controller for Spy {
    fn on_ack(&mut self, _: Instant, _: Instant, _: u64, _: bool, rtt: &RttEstimator) {
        if let Ok(mut last) = self.0.lock() {
            *last = Some(*rtt);
        }
    }

    fn on_congestion_event(&mut self, _: Instant, _: Instant, _: bool, _: u64) {}

    fn on_mtu_update(&mut self, _: u16) {}

    fn window(&self) -> u64 {
        self.initial_window()
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }

    fn initial_window(&self) -> u64 {
        20_000
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
