//! Web sessions: the times of the clicks and the loading times of the pages.

use std::ops::Range;

use lasthop::scenario::network::{App, Network};
use lasthop::units::{Duration, Time};

use crate::events::Observer;
use crate::probes::result::ClickResult;
use crate::simulation::Simulation;

/// A session whose next click follows the completion of the page and a think time.
#[derive(Clone, Debug)]
pub struct SessionState {
    pages: Vec<Range<usize>>,
    /// Index of the page that is being fetched.
    page: usize,
    think: Duration,
}

impl<R: Observer> Simulation<R> {
    /// Adds the sessions in which a click depends on the page before. The flows of later pages
    /// start at their click.
    pub(crate) fn add_sessions(&mut self, network: &Network) {
        for session in &network.sessions {
            let Some(think) = session.think else { continue };
            for f in session.pages.iter().cloned().flatten() {
                self.flows[f].session = Some(self.sessions.len() as u32);
            }
            for f in session.pages.iter().skip(1).cloned().flatten() {
                self.flows[f].start = self.end;
                self.net.limits[f].start(self.end);
            }
            self.sessions.push(SessionState { pages: session.pages.clone(), page: 0, think });
        }
    }

    /// A transfer is complete. If it was the last object of its page, schedules the next click.
    #[inline(never)]
    pub(crate) fn transfer_completed(&mut self, f: usize) {
        let Some(s) = self.flows[f].session else { return };
        let session = &mut self.sessions[s as usize];
        let Some(page) = session.pages.get(session.page) else { return };
        if page.clone().any(|f| self.flows[f].stats.completed.is_none()) {
            return;
        }
        session.page += 1;
        let now = self.net.now;
        let click = now + session.think;
        for f in session.pages.get(session.page).cloned().unwrap_or_default() {
            self.flows[f].start = click.min(self.end);
            self.net.limits[f].start(click.max(self.measure_from));
            self.net.scheduler.set(self.flows[f].source, click.0, now.0);
            self.oracle_begins(f, click);
        }
    }

    /// The loading times of all pages.
    pub(crate) fn clicks(&self, network: &Network) -> Vec<ClickResult> {
        let pages = network
            .sessions
            .iter()
            .flat_map(|s| s.pages.iter().enumerate().map(move |(k, page)| (s, k, page.clone())));
        pages
            .map(|(session, k, page)| {
                let flows = || page.clone().map(|f| &self.flows[f]);
                let at = self.flows[page.start].start;
                let since = |t: Time| (t - at).decimal_secs();
                let completed = flows()
                    .map(|f| f.stats.completed)
                    .try_fold(Time::ZERO, |last, t| t.map(|t| last.max(t)));
                let end = network.flows[page.start]
                    .stop
                    .map(|s| Time::ZERO + s)
                    .filter(|s| *s < self.end);
                let size = |f: usize| {
                    if let App::Transfer { size } = network.flows[f].app { size } else { 0 }
                };
                let clicked = at < end.unwrap_or(self.end);
                ClickResult {
                    id: format!("{} {}", session.name, k + 1),
                    at_s: clicked.then(|| at.decimal_secs()),
                    objects: page.len(),
                    bytes: page.clone().map(size).sum(),
                    first_byte_s: flows().filter_map(|f| f.stats.first_byte).min().map(since),
                    completed_s: completed.map(since),
                    broken_off: clicked && completed.is_none() && end.is_some(),
                }
            })
            .collect()
    }
}
