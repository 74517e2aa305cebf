//! Which parts of a recovery go together.

use super::config::{Recovery, RecoveryKind};
use super::detect::scheme::OwnAddition;
use super::spurious::dsack;
use super::{defer, prr, sack_ns2};

/// Checks that the parts are compatible.
///
/// # Errors
///
/// The message names the parts that exclude each other, or the range of a number.
pub fn check(recovery: &Recovery) -> Result<(), String> {
    RULES.iter().try_for_each(|rule| rule(recovery))
}

/// What one part of a recovery demands of the others; the message names what does not go with it.
type Rule = fn(&Recovery) -> Result<(), String>;

/// What each part of a recovery is compatible with.
const RULES: [Rule; 6] =
    [dsack::check, sack_ns2::check, check_scheme, prr::check, defer::check, check_hints];

/// A detector of a scheme may exclude all additions except its own.
fn check_scheme(recovery: &Recovery) -> Result<(), String> {
    let RecoveryKind::Scheme(entry) = recovery.kind else { return Ok(()) };
    let plain = Recovery { setting: recovery.setting, ..Recovery::of(recovery.kind) };
    if entry.excludes_additions && *recovery != plain {
        let but = entry.own.as_ref().map_or(String::new(), |own| format!(" but {}", own.name));
        return Err(format!("{} takes no addition{but}", entry.name));
    }
    match &entry.own {
        Some(OwnAddition { name, number: Some(number), .. }) => {
            number.check(name, recovery.setting)
        }
        _ => Ok(()),
    }
}

/// The recoveries that accept hints of the link layer.
fn check_hints(recovery: &Recovery) -> Result<(), String> {
    let accepts = match recovery.kind {
        RecoveryKind::Reno | RecoveryKind::Newreno | RecoveryKind::Sack => true,
        RecoveryKind::Scheme(entry) => entry.hints.is_some(),
        _ => false,
    };
    match recovery.hints {
        Some(rules) if !accepts => {
            Err(format!("{} goes with reno, newreno and sack", rules.entry.name))
        }
        _ => Ok(()),
    }
}
