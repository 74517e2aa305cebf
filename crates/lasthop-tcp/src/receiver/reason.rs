//! Why segments are discarded.

/// Why a receiver discards a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Discard {
    /// Its timestamp is older than the last one in order (Linux counter `PAWSEstab`).
    OldTimestamp,
    /// It has data outside the receive window, or after the FIN (`BeyondWindow`,
    /// `TCPOverwindow`).
    BeyondWindow,
    /// Its data are the next in order, but the window is closed (`TCPZeroWindowDrop`).
    ZeroWindow,
    /// A SYN of an open connection, or a reset out of order (`TCPChallengeACK`).
    Challenged,
    /// The connection is forgotten, since the SYN-ACK was not answered: a reset answers it (RFC
    /// 9293, section 3.10.7.1).
    NoConnection,
}

impl Discard {
    /// All reasons.
    pub const ALL: [Discard; 5] = [
        Discard::OldTimestamp,
        Discard::BeyondWindow,
        Discard::ZeroWindow,
        Discard::Challenged,
        Discard::NoConnection,
    ];

    /// Name in events and results.
    pub fn name(self) -> &'static str {
        match self {
            Discard::OldTimestamp => "old_timestamp",
            Discard::BeyondWindow => "beyond_window",
            Discard::ZeroWindow => "zero_window",
            Discard::Challenged => "challenged",
            Discard::NoConnection => "no_connection",
        }
    }
}
