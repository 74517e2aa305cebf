//! Requests of a client and the time until their responses are complete.

use lasthop::histogram::{Histogram, Summary};
use lasthop::units::{Duration, Time};
use serde::{Deserialize, Serialize};

/// Requests and responses of a flow in the measured time.
#[derive(Clone, Debug)]
pub struct RequestStats {
    from: Time,
    sent: u64,
    repeated: u64,
    times: Histogram,
    answered: u64,
}

/// The requests of a flow.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct RequestResult {
    /// Requests sent in the measured time, without repetitions.
    pub sent: u64,
    /// Repetitions of requests without a response.
    pub repeated: u64,
    /// Responses that became complete in the measured time.
    pub answered: u64,
    /// The same per second.
    pub answered_per_s: f64,
    /// From the first sending of a request to the last byte of its response, seconds.
    pub response_s: Summary,
}

impl RequestStats {
    /// No request yet, in a run that is measured from `from` on.
    pub fn new(from: Time) -> RequestStats {
        RequestStats { from, sent: 0, repeated: 0, times: Histogram::default(), answered: 0 }
    }

    /// A request is sent for the `times`-th time.
    pub fn sent(&mut self, now: Time, times: u32) {
        if now >= self.from {
            *(if times > 1 { &mut self.repeated } else { &mut self.sent }) += 1;
        }
    }

    /// A response is complete.
    pub fn responded(&mut self, now: Time, time: Duration) {
        if now >= self.from {
            self.answered += 1;
            self.times.record(time, 1);
        }
    }

    /// The result after this measured time.
    pub fn result(&self, measured: Duration) -> RequestResult {
        RequestResult {
            sent: self.sent,
            repeated: self.repeated,
            answered: self.answered,
            answered_per_s: self.answered as f64 / measured.as_secs(),
            response_s: self.times.summary(),
        }
    }
}
