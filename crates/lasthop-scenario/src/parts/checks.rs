//! Checks that several parts of a file have.

use crate::text::errors::ScenarioError;
use crate::text::tree::{Path, Tree};
use lasthop_core::diagnostics::Mistake;
use lasthop_core::units::Size;

/// Largest IP packet, bytes (RFC 791).
pub const MAX_PACKET: u64 = 65_535;
/// Maximum number of flows.
pub const MAX_FLOWS: u64 = 10_000;

/// The result of a check.
pub type Checked = Result<(), ScenarioError>;

/// Checks the name of a node, link, cell or flow.
pub fn check_name(name: Option<&str>, kind: &str, at: &Path, tree: &Tree<'_>) -> Checked {
    match name {
        Some(name) if name.trim().is_empty() => {
            Err(tree.wrong(&at.at("name"), format!("a {kind} needs a name that is not empty")))
        }
        Some(name) if name.chars().all(|c| c.is_ascii_digit()) => Err(tree.wrong(
            &at.at("name"),
            format!(
                "a name must not be a number, which stands for the position of a {kind}; found \
                 \"{name}\""
            ),
        )),
        _ => Ok(()),
    }
}

/// Checks a number of bytes.
pub fn bytes_within(
    size: Option<Size>,
    allowed: std::ops::RangeInclusive<u64>,
    key: &str,
    at: &Path,
    tree: &Tree<'_>,
) -> Checked {
    match size {
        None => Ok(()),
        Some(Size::Bytes(b)) if allowed.contains(&b) => Ok(()),
        Some(Size::Bytes(b)) => Err(tree.wrong(
            &at.at(key),
            format!("expected {} to {} B, found {b} B", allowed.start(), allowed.end()),
        )),
        Some(Size::Segments(_)) => Err(tree.error(
            &at.at(key),
            Mistake::WrongType {
                expected: format!("bytes such as \"{} B\"", allowed.start().max(&40)),
                found: "a number of segments".into(),
            },
        )),
    }
}
