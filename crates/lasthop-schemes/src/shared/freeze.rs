//! A sender that freezes while its last hop is down (TCP-F): it sends nothing and its timers stop,
//! until a notice says that the link is up again, or for a limited time.

use lasthop_core::segment::{Notice, NoticeKind};
use lasthop_core::units::{Duration, Time};
use lasthop_tcp::notice_rule::{MakeNoticeRule, NoticeResponse, NoticeRule, NoticeSetting};
use lasthop_tcp::profile::Profile;

/// Lets the sender freeze on notices about its last hop, for `time` at most; 0: it ignores them.
pub fn set(profile: &mut Profile, time: Duration) {
    let make: MakeNoticeRule = |time| Box::new(Freeze { time, noticed: Time::ZERO });
    profile.notices = (time > Duration::ZERO).then(|| NoticeSetting::new("freeze", time, make));
}

/// The time of [`set`]; 0 if the sender ignores notices about its last hop.
pub fn time_of(profile: &Profile) -> Duration {
    profile.notices.map_or(Duration::ZERO, |setting| setting.time())
}

/// The sender's part: an RFN freezes it, an RRN lets it continue.
#[derive(Debug)]
struct Freeze {
    time: Duration,
    /// When the last accepted notice was made.
    noticed: Time,
}

impl NoticeRule for Freeze {
    fn on_notice(&mut self, now: Time, notice: &Notice) -> NoticeResponse {
        // A notice that was overtaken by a later one is out of date.
        if notice.kind != NoticeKind::Link || notice.stamp < self.noticed {
            return NoticeResponse::Ignore;
        }
        self.noticed = notice.stamp;
        if notice.value == 0 {
            NoticeResponse::Hold { until: now + self.time }
        } else {
            NoticeResponse::Resume
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lasthop_tcp::profile::ProfileName;

    #[test]
    fn notices_freeze_and_resume_in_the_order_in_which_they_were_made() {
        let mut profile = Profile::named(ProfileName::Rfc);
        set(&mut profile, Duration::secs(10));
        let mut rule = profile.notices.unwrap().make();
        let at = |seconds| Time::ZERO + Duration::secs(seconds);
        let mut on = |kind, value, made| {
            let notice = Notice { kind, flow: 1, value, stamp: at(made) };
            rule.on_notice(at(20), &notice)
        };
        let hold = NoticeResponse::Hold { until: at(30) };
        assert_eq!(on(NoticeKind::Eln, 0, 1), NoticeResponse::Ignore);
        assert_eq!(on(NoticeKind::Link, 0, 2), hold);
        assert_eq!(on(NoticeKind::Link, 1, 1), NoticeResponse::Ignore);
        assert_eq!(on(NoticeKind::Link, 1, 3), NoticeResponse::Resume);
        set(&mut profile, Duration::ZERO);
        assert_eq!((profile.notices, time_of(&profile)), (None, Duration::ZERO));
    }
}
