//! What applications send, for tests.

use super::{App, AppState, Do};
use crate::units::{Duration, Time};

/// Times at which datagrams of 1000 bytes are sent within 2000 s.
pub fn times(app: &App, seed: u64) -> Vec<f64> {
    let mut state = AppState::new(app, None, 1000, seed, "x");
    let (mut now, mut found) = (Time::ZERO, Vec::new());
    while now < Time::ZERO + Duration::secs(2000) {
        let (what, next) = state.fire(now);
        if what.is_some() {
            assert_eq!(what, Some(Do::Datagram(1000)));
            found.push(now.0 as f64 / 1e9);
        }
        now = next.unwrap();
    }
    found
}
