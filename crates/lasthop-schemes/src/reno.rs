//! TCP Reno: Tahoe with fast recovery.
//!
//! Source: RFC 5681 (RFC 2581 in the papers). Deployed at: the sender. Wire: nothing. Assumes that
//! every loss means congestion. Bad at: several losses in one window (often a timeout), reordering
//! by three or more, delay spikes, outages.

use crate::prelude::*;

/// Settings of Reno.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Reno {
    /// Loss recovery under the rule, such as "rack+prr+f-rto"; unset: the profile's, or "reno" if
    /// the profile has none.
    pub recovery: Option<RecoverySetting>,
}

impl SchemeConfig for Reno {
    const ENTRY: Entry = Entry {
        name: "reno",
        family: Family::EndToEnd,
        group: Some(Group::LossRecovery),
        summary: "halves the window on three duplicate ACKs and keeps the ACK clock in fast \
                  recovery",
        paper: "RFC 5681",
        changes: Footprint { sender: true, ..Footprint::NONE },
        assumptions: &["every loss means congestion", "three duplicate ACKs mean a loss"],
        ..Entry::DEFAULT
    };

    fn recovery(&self) -> Option<RecoverySlot> {
        Some(RecoverySlot::chosen(self.recovery, Recovery::of(RecoveryKind::Reno)))
    }
}

/// Reno's window rule: slow start, then one segment per round trip; half on a loss.
#[derive(Clone, Copy, Debug, Default)]
pub struct RenoWindow;

#[window_rule]
impl WindowRule for RenoWindow {
    #[inline]
    fn on_ack(&mut self, window: &mut Window, ack: &Ack) {
        grow(window, ack);
    }
    fn grows_as_reno(&self) -> bool {
        true
    }
}
