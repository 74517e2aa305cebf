//! Page views: consecutive transfers with pauses between them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::application::{Application, Fault, Process, check_shape, pareto_shape};
use super::operation::Do;
use crate::random::Stream;
use crate::units::{Duration, Size, Time};

/// A sequence of pages with pauses between them.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
pub struct Web {
    /// Mean size of a page.
    pub mean_size: Size,
    /// Pareto shape of the sizes, above 1.
    #[serde(default = "pareto_shape")]
    pub shape: f64,
    /// Mean pause (exponential) between the end of one page and the click for the next.
    pub mean_pause: Duration,
}

impl Web {
    /// Mean size of a page, bytes.
    fn bytes(&self, segment: u32) -> f64 {
        self.mean_size.bytes(segment).max(1) as f64
    }
}

impl Application for Web {
    type Process = Pages;
    const IS_RANDOM: bool = true;
    const WAITS_FOR_DELIVERY: bool = true;

    fn check(&self) -> Result<(), Fault> {
        if self.mean_size.is_zero() {
            return Err(("mean_size", "must be above 0".into()));
        }
        check_shape(self.shape)
    }

    fn segments(&self, _through: f64, seconds: f64, segment: u32) -> f64 {
        let page = (self.bytes(segment) / f64::from(segment)).ceil();
        (seconds / self.mean_pause.as_secs() + 1.0) * page
    }

    fn process(&self, segment: u32, draws: Stream) -> Pages {
        Pages { web: *self, mean_size: self.bytes(segment), page: 0, draws }
    }
}

/// The pages of one user.
#[derive(Clone, Debug)]
pub struct Pages {
    web: Web,
    mean_size: f64,
    /// Ordinal of the page that is being fetched, from 1.
    page: u64,
    draws: Stream,
}

impl Process for Pages {
    fn fire(&mut self, _now: Time) -> (Option<Do>, Option<Time>) {
        self.page += 1;
        let size = self.draws.pareto(2 * self.page, self.mean_size, self.web.shape).max(1.0);
        (Some(Do::Write(size as u64)), None)
    }

    fn delivered(&mut self, now: Time) -> Option<Time> {
        let pause = self.draws.exponential(2 * self.page + 1, self.web.mean_pause.as_secs());
        Some(now + Duration::from_secs_f64(pause))
    }
}
