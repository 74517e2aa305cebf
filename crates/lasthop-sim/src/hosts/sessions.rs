//! Web sessions in which a click depends on the page before: the click follows the completion of
//! the page and a think time.

use std::ops::Range;

use lasthop::units::Duration;

/// A session whose next click follows the completion of the page.
#[derive(Clone, Debug)]
pub struct Session {
    /// The flows of each page.
    pages: Vec<Range<usize>>,
    /// Index of the page that is being fetched.
    page: usize,
    think: Duration,
}

impl Session {
    /// A session at its first page.
    pub(crate) fn new(pages: Vec<Range<usize>>, think: Duration) -> Session {
        Session { pages, page: 0, think }
    }

    /// The flows of the page that is being fetched; `None` after the last page.
    pub(crate) fn page(&self) -> Option<Range<usize>> {
        self.pages.get(self.page).cloned()
    }

    /// The page is complete. Returns the flows of the next one, and the time until the click.
    pub(crate) fn next_page(&mut self) -> (Range<usize>, Duration) {
        self.page += 1;
        (self.page().unwrap_or_default(), self.think)
    }
}
