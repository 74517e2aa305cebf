//! What an application does when its timer fires.

/// An operation of an application when its timer fires.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Do {
    /// Opens the connection and writes this many bytes (`u64::MAX`: unlimited).
    Write(u64),
    /// Stops writing; data that TCP has not sent are withdrawn.
    Stop,
    /// Aborts the connection: both ends close it, and packets in transit are discarded on arrival.
    Abort,
    /// Sends a datagram with this many payload bytes.
    Datagram(u32),
    /// The client sends a request to the sender of the flow.
    Request {
        /// Ordinal of the request, from 1.
        ordinal: u64,
        /// Payload, bytes.
        bytes: u32,
        /// How many times it has been sent, this time included.
        times: u32,
    },
}
