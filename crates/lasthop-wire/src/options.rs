//! TCP options in raw bytes (RFC 9293 section 3.2, RFC 7323, RFC 2018).
//!
//! Known kinds are decoded to values, experimental kinds (253 and 254) to their experiment
//! identifier (RFC 6994) and data; all others are passed through as raw bytes. Writing the options
//! that were read gives the same bytes.

use thiserror::Error;

/// Maximum length of the options in a TCP header, bytes.
pub const MAX_OPTIONS: usize = 40;

/// Option kind (RFC 6994) of the two non-standard options, [`NAMED_ID`] and [`REPORT_ID`]. Each
/// carries four bytes of data after its experiment identifier.
pub const EXPERIMENTAL: u8 = 253;
/// Experiment identifier of the option that names a segment by its sequence number.
pub const NAMED_ID: u16 = 0x4c4e;
/// Experiment identifier of the option that carries a value of the receiver's scheme.
pub const REPORT_ID: u16 = 0x4c52;

/// One option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TcpOption<'a> {
    /// Kind 1, padding (RFC 9293 section 3.2).
    NoOperation,
    /// Kind 2: the largest payload, in bytes, that the sender of the option can receive (RFC 9293
    /// section 3.7.1).
    MaximumSegmentSize(u16),
    /// Kind 3: left shift of the window fields in later segments (RFC 7323 section 2).
    WindowScale(u8),
    /// Kind 4, SACK-permitted (RFC 2018 section 2).
    SackPermitted,
    /// Kind 5, SACK blocks (RFC 2018 section 3).
    Sack(SackBlocks),
    /// Kind 8, timestamps (RFC 7323 section 3).
    Timestamps {
        /// TSval, the sender's timestamp clock.
        value: u32,
        /// TSecr, the echoed timestamp of the peer.
        echo: u32,
    },
    /// Kind 21, a selective negative acknowledgment (CCSDS 714.0); see [`crate::snack`].
    Snack {
        /// Distance of the first hole from the acknowledgment number, segments.
        offset: u16,
        /// Size of the first hole, segments.
        size: u16,
        /// Bitmap of the segments after the first hole, most significant bit first: 1 means
        /// received (or not requested), 0 means a hole if a 1 follows.
        map: &'a [u8],
    },
    /// Kinds 253 and 254 with the first 16 bits of their experiment identifier (RFC 6994 section
    /// 3).
    Experimental {
        /// 253 or 254.
        kind: u8,
        /// Experiment identifier (RFC 6994).
        id: u16,
        /// Bytes after the experiment identifier.
        data: &'a [u8],
    },
    /// Any other kind, and known kinds with an unexpected length.
    Other {
        /// Option kind.
        kind: u8,
        /// Bytes after kind and length.
        data: &'a [u8],
    },
}

/// Up to four blocks of a SACK option: left edge (first sequence number) and right edge (one past
/// the last).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SackBlocks {
    blocks: [(u32, u32); 4],
    count: usize,
}

impl SackBlocks {
    /// A list of the first four of `blocks`; further ones are ignored.
    pub fn new(blocks: &[(u32, u32)]) -> SackBlocks {
        let mut all = SackBlocks::default();
        blocks.iter().for_each(|&block| all.push(block));
        all
    }

    /// Appends a block; ignored after the fourth.
    fn push(&mut self, block: (u32, u32)) {
        if let Some(free) = self.blocks.get_mut(self.count) {
            *free = block;
            self.count += 1;
        }
    }

    /// The blocks as (left edge, right edge).
    pub fn as_slice(&self) -> &[(u32, u32)] {
        self.blocks.get(..self.count).unwrap_or_default()
    }
}

/// An option's length field is below 2 or exceeds the remaining header bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("malformed TCP options")]
pub struct Malformed;

/// Iterates over the options in `bytes`, up to the end-of-list option (kind 0) or the first
/// malformed one.
///
/// # Examples
///
/// ```
/// use lasthop_wire::options::{Malformed, TcpOption, options};
///
/// // MSS 1460, then a SACK-permitted option whose length is too small.
/// let mut list = options(&[2, 4, 5, 180, 4, 1]);
/// assert_eq!(list.next(), Some(Ok(TcpOption::MaximumSegmentSize(1460))));
/// assert_eq!(list.next(), Some(Err(Malformed)));
/// assert_eq!(list.next(), None);
/// ```
pub fn options(bytes: &[u8]) -> Options<'_> {
    Options { rest: bytes }
}

/// Iterator over options; see [`options`].
#[derive(Clone, Debug)]
pub struct Options<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Options<'a> {
    type Item = Result<TcpOption<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        let (&kind, after) = self.rest.split_first()?;
        match kind {
            0 => {
                self.rest = &[];
                None
            }
            1 => {
                self.rest = after;
                Some(Ok(TcpOption::NoOperation))
            }
            _ => {
                let length = after.first().map_or(0, |&l| usize::from(l));
                let Some(([_, _, data @ ..], rest)) = self.rest.split_at_checked(length) else {
                    self.rest = &[];
                    return Some(Err(Malformed));
                };
                self.rest = rest;
                Some(Ok(TcpOption::from_data(kind, data)))
            }
        }
    }
}

impl<'a> TcpOption<'a> {
    /// The option of this kind with these bytes after kind and length.
    fn from_data(kind: u8, data: &'a [u8]) -> TcpOption<'a> {
        match (kind, data) {
            (2, &[a, b]) => TcpOption::MaximumSegmentSize(u16::from_be_bytes([a, b])),
            (3, &[shift]) => TcpOption::WindowScale(shift),
            (4, []) => TcpOption::SackPermitted,
            (5, d) if matches!(d.len(), 8 | 16 | 24 | 32) => {
                let mut blocks = SackBlocks::default();
                d.chunks_exact(8).filter_map(two_words).for_each(|block| blocks.push(block));
                TcpOption::Sack(blocks)
            }
            (8, d) => match two_words(d) {
                Some((value, echo)) => TcpOption::Timestamps { value, echo },
                None => TcpOption::Other { kind, data },
            },
            (21, &[a, b, c, d, ref map @ ..]) => TcpOption::Snack {
                offset: u16::from_be_bytes([a, b]),
                size: u16::from_be_bytes([c, d]),
                map,
            },
            (253 | 254, &[a, b, ref rest @ ..]) => {
                TcpOption::Experimental { kind, id: u16::from_be_bytes([a, b]), data: rest }
            }
            _ => TcpOption::Other { kind, data },
        }
    }
}

/// Eight bytes as two big-endian 32-bit integers; `None` if there are fewer or more.
fn two_words(bytes: &[u8]) -> Option<(u32, u32)> {
    let &[a, b, c, d, e, f, g, h] = bytes else { return None };
    Some((u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h])))
}

/// A buffer for writing options. [`padded`](OptionBytes::padded) aligns the result to 32-bit words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptionBytes {
    bytes: [u8; MAX_OPTIONS],
    length: usize,
}

/// The option does not fit into the 40 bytes of option space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("no room left for TCP options ({MAX_OPTIONS} bytes)")]
pub struct Full;

impl Default for OptionBytes {
    fn default() -> Self {
        OptionBytes { bytes: [0; MAX_OPTIONS], length: 0 }
    }
}

impl OptionBytes {
    /// Appends an option.
    ///
    /// # Errors
    ///
    /// [`Full`] if the option does not fit; the buffer is then unchanged.
    pub fn push(&mut self, option: TcpOption<'_>) -> Result<(), Full> {
        match option {
            TcpOption::NoOperation => self.put(&[&[1]]),
            TcpOption::MaximumSegmentSize(size) => self.put(&[&[2, 4], &size.to_be_bytes()]),
            TcpOption::WindowScale(shift) => self.put(&[&[3, 3, shift]]),
            TcpOption::SackPermitted => self.put(&[&[4, 2]]),
            TcpOption::Sack(blocks) => {
                let edges = |&(from, to): &(u32, u32)| [from.to_be_bytes(), to.to_be_bytes()];
                let words: Vec<[u8; 4]> = blocks.as_slice().iter().flat_map(edges).collect();
                let bytes = words.as_flattened();
                self.put(&[&[5, length_byte(2 + bytes.len())?], bytes])
            }
            TcpOption::Timestamps { value, echo } => {
                self.put(&[&[8, 10], &value.to_be_bytes(), &echo.to_be_bytes()])
            }
            TcpOption::Snack { offset, size, map } => self.put(&[
                &[21, length_byte(6 + map.len())?],
                &offset.to_be_bytes(),
                &size.to_be_bytes(),
                map,
            ]),
            TcpOption::Experimental { kind, id, data } => {
                self.put(&[&[kind, length_byte(4 + data.len())?], &id.to_be_bytes(), data])
            }
            TcpOption::Other { kind, data } => {
                self.put(&[&[kind, length_byte(2 + data.len())?], data])
            }
        }
    }

    fn put(&mut self, parts: &[&[u8]]) -> Result<(), Full> {
        let end = self.length + parts.iter().map(|p| p.len()).sum::<usize>();
        let room = self.bytes.get_mut(self.length..end).ok_or(Full)?;
        for (free, byte) in room.iter_mut().zip(parts.iter().copied().flatten()) {
            *free = *byte;
        }
        self.length = end;
        Ok(())
    }

    /// The options, padded with end-of-list options (kind 0) to a multiple of four bytes.
    pub fn padded(&self) -> &[u8] {
        self.bytes.get(..self.length.next_multiple_of(4)).unwrap_or(&self.bytes)
    }
}

fn length_byte(length: usize) -> Result<u8, Full> {
    u8::try_from(length).map_err(|_| Full)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(bytes: &[u8]) -> Vec<Result<TcpOption<'_>, Malformed>> {
        options(bytes).collect()
    }

    #[test]
    fn parses_and_writes_linux_syn_options() {
        let bytes = [2, 4, 5, 0xb4, 4, 2, 8, 10, 0, 0, 0, 1, 0, 0, 0, 0, 1, 3, 3, 7];
        let expected = [
            TcpOption::MaximumSegmentSize(1460),
            TcpOption::SackPermitted,
            TcpOption::Timestamps { value: 1, echo: 0 },
            TcpOption::NoOperation,
            TcpOption::WindowScale(7),
        ];
        assert_eq!(read(&bytes), expected.map(Ok));
        let mut written = OptionBytes::default();
        expected.into_iter().for_each(|o| written.push(o).unwrap());
        assert_eq!(written.padded(), bytes);
    }

    #[test]
    fn unknown_and_experimental_kinds_preserve_their_bytes() {
        let bytes = [253, 6, 0xf9, 0x89, 1, 2, 69, 3, 9, 254, 2, 3, 4, 7, 7, 1];
        let expected = [
            TcpOption::Experimental { kind: 253, id: 0xf989, data: &[1, 2] },
            TcpOption::Other { kind: 69, data: &[9] },
            TcpOption::Other { kind: 254, data: &[] },
            TcpOption::Other { kind: 3, data: &[7, 7] },
            TcpOption::NoOperation,
        ];
        assert_eq!(read(&bytes), expected.map(Ok));
    }

    #[test]
    fn list_ends_at_kind_0_and_at_the_first_malformed_option() {
        assert_eq!(read(&[1, 0, 1]), [Ok(TcpOption::NoOperation)]);
        for bad in [&[8, 10, 0][..], &[2, 1, 0, 0], &[2, 0], &[254]] {
            assert_eq!(read(bad), [Err(Malformed)]);
        }
    }

    #[test]
    fn push_into_full_buffer_changes_nothing() {
        let mut o = OptionBytes::default();
        for _ in 0..4 {
            o.push(TcpOption::Timestamps { value: 1, echo: 2 }).unwrap();
        }
        let before = o;
        assert_eq!(o.push(TcpOption::NoOperation), Err(Full));
        assert_eq!(o.push(TcpOption::Other { kind: 77, data: &[0; 300] }), Err(Full));
        assert_eq!(o, before);
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_round_trip(
            bytes in proptest::collection::vec(any::<u8>(), 0..=MAX_OPTIONS),
        ) {
            let mut written = OptionBytes::default();
            let mut length = 0;
            for option in options(&bytes).map_while(Result::ok) {
                written.push(option).unwrap();
                length = written.length;
            }
            prop_assert!(bytes.get(..length).is_some());
            prop_assert_eq!(written.bytes.get(..length), bytes.get(..length));
        }

        #[test]
        fn arbitrary_kinds_with_valid_lengths(
            kinds in proptest::collection::vec((any::<u8>(), 2u8..14), 0..6),
        ) {
            let mut bytes = Vec::new();
            for (kind, length) in kinds {
                bytes.extend([kind, length]);
                bytes.extend((2..length).map(|i| i ^ kind));
            }
            prop_assert!(options(&bytes).count() <= bytes.len());
        }
    }
}
