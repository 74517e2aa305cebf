//! The settings of CUBIC.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::catalogue::RecoverySetting;
use lasthop_core::units::Share;

/// Settings of CUBIC.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Cubic {
    /// Slope C of the curve (0.4, RFC 9438 section 5).
    #[schemars(extend("unit" = "segments/s³"))]
    pub c: f64,
    /// Factor of the window at a reduction (0.7, RFC 9438 section 4.6).
    pub beta: Share,
    /// Wmax is lowered if the window has not reached it again (RFC 9438 section 4.7; on in Linux).
    pub fast_convergence: bool,
    /// HyStart++ (RFC 9406), as RFC 9438 section 4.10 recommends; under `tcp.cubic = "linux"` its
    /// predecessor HyStart.
    pub hystart: bool,
    /// Loss recovery under the rule, such as "rack+prr+f-rto"; unset: the profile's, or Linux' if
    /// the profile has none.
    pub recovery: Option<RecoverySetting>,
}

/// What the rule needs of the settings: a run has a copy for each connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parameters {
    pub c: f64,
    pub beta: Share,
    pub fast_convergence: bool,
    pub hystart: bool,
}

impl From<&Cubic> for Parameters {
    fn from(settings: &Cubic) -> Parameters {
        let &Cubic { c, beta, fast_convergence, hystart, recovery: _ } = settings;
        Parameters { c, beta, fast_convergence, hystart }
    }
}

impl Default for Cubic {
    fn default() -> Self {
        Cubic { c: 0.4, beta: Share(0.7), fast_convergence: true, hystart: true, recovery: None }
    }
}
