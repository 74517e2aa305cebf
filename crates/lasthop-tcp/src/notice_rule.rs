//! What a sender does about notices that report no loss, such as one about its last hop: a rule of
//! a scheme, as a value of the profile.

use std::fmt;

use lasthop_core::segment::Notice;
use lasthop_core::units::{Duration, Time};

/// What a [`NoticeRule`] asks of the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoticeResponse {
    /// Nothing.
    Ignore,
    /// The sender is held: it sends nothing and its timers stop, until `until` at the latest.
    Hold {
        /// When it continues without a further notice; its timers continue then, too.
        until: Time,
    },
    /// A held sender continues, and all that is not acknowledged is retransmitted.
    Resume,
}

/// The response of one sender to notices.
///
/// # Examples
///
/// A sender that is held while its last hop is down, for a minute at most:
///
/// ```
/// use lasthop_core::segment::{Notice, NoticeKind};
/// use lasthop_core::units::{Duration, Time};
/// use lasthop_tcp::notice_rule::{NoticeResponse, NoticeRule};
///
/// #[derive(Debug)]
/// struct HoldWhileDown;
///
/// impl NoticeRule for HoldWhileDown {
///     fn on_notice(&mut self, now: Time, notice: &Notice) -> NoticeResponse {
///         match (notice.kind, notice.value) {
///             (NoticeKind::Link, 0) => NoticeResponse::Hold { until: now + Duration::secs(60) },
///             (NoticeKind::Link, _) => NoticeResponse::Resume,
///             _ => NoticeResponse::Ignore,
///         }
///     }
/// }
///
/// let now = Time::ZERO + Duration::secs(3);
/// let down = Notice { kind: NoticeKind::Link, flow: 0, value: 0, stamp: now };
/// let until = Time::ZERO + Duration::secs(63);
/// assert_eq!(HoldWhileDown.on_notice(now, &down), NoticeResponse::Hold { until });
/// let up = Notice { value: 1, ..down };
/// assert_eq!(HoldWhileDown.on_notice(now, &up), NoticeResponse::Resume);
/// ```
pub trait NoticeRule: fmt::Debug + Send {
    /// A notice for the flow of the sender.
    fn on_notice(&mut self, now: Time, notice: &Notice) -> NoticeResponse;
}

/// Makes the rule of one connection, given the setting.
pub type MakeNoticeRule = fn(Duration) -> Box<dyn NoticeRule>;

/// A rule of a scheme with its setting, as a value of the profile.
///
/// # Examples
///
/// ```
/// use lasthop_core::segment::Notice;
/// use lasthop_core::units::{Duration, Time};
/// use lasthop_tcp::notice_rule::{NoticeResponse, NoticeRule, NoticeSetting};
///
/// /// Any notice holds the sender for a while.
/// #[derive(Debug)]
/// struct Pause(Duration);
///
/// impl NoticeRule for Pause {
///     fn on_notice(&mut self, now: Time, _: &Notice) -> NoticeResponse {
///         NoticeResponse::Hold { until: now + self.0 }
///     }
/// }
///
/// let setting = NoticeSetting::new("pause", Duration::secs(1), |time| Box::new(Pause(time)));
/// assert_eq!(setting.time(), Duration::secs(1));
/// ```
#[derive(Clone, Copy)]
pub struct NoticeSetting {
    name: &'static str,
    time: Duration,
    make: MakeNoticeRule,
}

impl NoticeSetting {
    /// The rule `name` with its setting.
    pub const fn new(name: &'static str, time: Duration, make: MakeNoticeRule) -> Self {
        NoticeSetting { name, time, make }
    }

    /// The setting.
    pub fn time(&self) -> Duration {
        self.time
    }

    /// The rule of one connection.
    pub fn make(&self) -> Box<dyn NoticeRule> {
        (self.make)(self.time)
    }
}

impl PartialEq for NoticeSetting {
    fn eq(&self, other: &NoticeSetting) -> bool {
        (self.name, self.time) == (other.name, other.time)
    }
}

impl fmt::Debug for NoticeSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({:?})", self.name, self.time)
    }
}
