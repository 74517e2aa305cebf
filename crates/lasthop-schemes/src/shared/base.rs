//! The loss recoveries to which schemes for spurious losses are added.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use lasthop_tcp::recovery::{Recovery, RecoveryKind};

/// The loss recovery to which a scheme is added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Base {
    /// Reno's fast recovery.
    Reno,
    /// NewReno (RFC 6582).
    Newreno,
    /// SACK (RFC 6675).
    Sack,
}

impl Base {
    /// The recovery itself.
    pub const fn recovery(self) -> Recovery {
        Recovery::of(match self {
            Base::Reno => RecoveryKind::Reno,
            Base::Newreno => RecoveryKind::Newreno,
            Base::Sack => RecoveryKind::Sack,
        })
    }
}
