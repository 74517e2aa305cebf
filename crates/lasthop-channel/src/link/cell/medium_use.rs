//! What occupies the medium of a cell with aggregation: the record of each transmission.

use lasthop_core::units::Time;

/// What a transmission is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UseKind {
    /// An A-MPDU.
    #[default]
    Aggregate,
    /// One MPDU with data that is answered by an ACK.
    Single,
    /// A BlockAckReq.
    Request,
    /// An RTS that no data follow.
    Rts,
    /// The end of a TXOP that has time left.
    CfEnd,
    /// A transmission that collides; the others have the same start.
    Collision,
    /// A beacon.
    Beacon,
    /// Other networks.
    Others,
}

impl UseKind {
    /// All kinds, in the order of their codes.
    pub const ALL: [UseKind; 8] = [
        UseKind::Aggregate,
        UseKind::Single,
        UseKind::Request,
        UseKind::Rts,
        UseKind::CfEnd,
        UseKind::Collision,
        UseKind::Beacon,
        UseKind::Others,
    ];

    /// The name in tables.
    pub fn name(self) -> &'static str {
        match self {
            UseKind::Aggregate => "aggregate",
            UseKind::Single => "single MPDU",
            UseKind::Request => "BlockAckReq",
            UseKind::Rts => "RTS",
            UseKind::CfEnd => "CF-End",
            UseKind::Collision => "collision",
            UseKind::Beacon => "beacon",
            UseKind::Others => "other networks",
        }
    }
}

/// A transmission with what precedes and answers it: RTS and CTS, data, the ACK or block ACK.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MediumUse {
    /// What it is.
    pub kind: UseKind,
    /// Its start, and the end of its last frame.
    pub start: Time,
    /// See `start`.
    pub end: Time,
    /// Index of the sending member of the cell; the access point for beacons and other networks.
    pub from: usize,
    /// Index of the receiving member.
    pub to: usize,
    /// It begins with an RTS.
    pub rts: bool,
    /// The receiver answers, though the answer may be lost.
    pub answered: bool,
    /// MCS of the data.
    pub mcs: u32,
    /// Length of the PSDU with data, bytes.
    pub bytes: u64,
    /// MPDUs, and the packets in them.
    pub mpdus: u32,
    /// See `mpdus`.
    pub packets: u32,
    /// MPDUs that have been sent before.
    pub retries: u32,
    /// MPDUs that the answer acknowledges to the sender; 0 if it is lost.
    pub acknowledged: u32,
}
