//! The network without its candidates.

use super::types::{FlowRole, Network, Session};

/// The network without its candidates; `None` if it has no candidate, or nothing else.
pub fn without_candidates(network: &Network) -> Option<Network> {
    let is_kept: Vec<bool> = network.flows.iter().map(|f| f.role != FlowRole::Candidate).collect();
    if is_kept.iter().all(|kept| *kept) || !is_kept.contains(&true) {
        return None;
    }
    let kept_before = |i: usize| is_kept[..i].iter().filter(|kept| **kept).count();
    let mut solo = network.clone();
    let mut kept = is_kept.iter();
    solo.flows.retain(|_| kept.next().copied().unwrap_or_default());
    // All flows of a session have the role of its `[[flow]]`.
    let is_session_kept = |s: &Session| s.pages.iter().all(|page| page.clone().all(|i| is_kept[i]));
    solo.sessions.retain(is_session_kept);
    for page in solo.sessions.iter_mut().flat_map(|s| &mut s.pages) {
        *page = kept_before(page.start)..kept_before(page.end);
    }
    Some(solo)
}
