//! A receiver that lies to its sender for a larger share (RFC 9743, section 7.6; Savage et al.,
//! "TCP congestion control with a misbehaving receiver", 1999).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a misbehaving receiver claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Misbehaviour {
    /// Everything up to the highest byte that has arrived is acknowledged, as if nothing were
    /// missing: the sender sees no loss, and what was lost is never sent again.
    OptimisticAcks,
    /// A retransmission that fills a hole is reported as a duplicate (D-SACK): the sender takes its
    /// reaction to the loss for spurious.
    FalseDsack,
}
