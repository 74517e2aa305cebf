//! What decides how each ACK grows the window.

use crate::profile::{CwndLimitedBy, Profile};

/// What each ACK asks of the profile, beside the stream: no pointer has to be followed.
#[derive(Clone, Copy, Debug)]
pub(super) struct GrowthRules {
    pub when_window_limited: bool,
    pub limited_by: CwndLimitedBy,
    pub by_bytes: bool,
    pub whole_segments: bool,
}

impl GrowthRules {
    pub fn of(profile: &Profile) -> Self {
        GrowthRules {
            when_window_limited: profile.grow_when_window_limited,
            limited_by: profile.cwnd_limited_by,
            by_bytes: profile.byte_counting,
            whole_segments: profile.whole_segments,
        }
    }
}
