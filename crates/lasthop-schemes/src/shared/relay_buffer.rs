//! The buffer of a relay, and the window of its local connection.

use lasthop_core::units::Size;

/// The default buffer of a relay: about the largest window of a TCP without window scaling (RFC
/// 7323).
pub const PUBLISHED: Size = Size::Bytes(64_000);

/// The window of a local leg without congestion control (a choice; the sources give none).
pub const WINDOW: Size = Size::Segments(32.0);

/// Refuses a setting `buffer` that no relay can have.
///
/// # Errors
/// The message says what is wrong.
pub fn check_buffer(buffer: Option<Size>) -> Result<(), String> {
    match buffer {
        Some(Size::Bytes(0)) => Err("buffer must be at least 1 B".into()),
        None | Some(Size::Bytes(_)) => Ok(()),
        Some(Size::Segments(_)) => Err("buffer must be given in bytes".into()),
    }
}
