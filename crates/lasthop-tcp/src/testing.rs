//! The window rule of the unit tests.

use crate::window::{Ack, Window, WindowRule, grow};

/// Reno's rule (RFC 5681): slow start, then one segment per round trip; half on a loss.
#[derive(Clone, Copy, Debug, Default)]
pub struct RenoWindow;

impl WindowRule for RenoWindow {
    fn on_ack(&mut self, window: &mut Window, ack: &Ack) {
        grow(window, ack);
    }
}
