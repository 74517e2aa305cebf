//! Capture reader: pcapng of either byte order and any time resolution, legacy pcap with
//! microsecond or nanosecond timestamps.
//!
//! The block structure is parsed here and not by a library, because a replay depends on the time of
//! each packet, and a user must be able to find a damaged block. Of the libraries (state: 2026):
//!
//! * pcap-file 3.0.0-rc1 does not apply `if_tsoffset`, computes a binary `if_tsresol` of 2^-n as
//!   2^(30-n) ns (2^-30 s is 0.93 ns, not 1 ns), panics for n = 30, refuses decimal exponents above
//!   9, rejects a capture with a comment that is not UTF-8, and gives no position in its errors.
//! * pcap-parser 0.17.0 reads `if_tsoffset` in little-endian order in sections of either order,
//!   does not parse the old packet block (type 2), needs a buffer as large as the largest block,
//!   drops the cause of a failed read, and describes a malformed block only by the parser rule that
//!   failed. Resolution, offset and section numbering would remain here, which is most of this
//!   file.

use std::io::{self, BufReader, Read};

use lasthop::units::Time;
use thiserror::Error;

use super::{Interface, Packet, code};
use crate::link::LinkType;

/// Why a capture cannot be read.
#[derive(Debug, Error)]
pub enum ReadError {
    /// The file or pipe cannot be read.
    #[error("cannot read the capture: {0}")]
    Io(#[from] io::Error),
    /// The input is empty.
    #[error("the capture is empty: the file has no bytes")]
    Empty,
    /// The first bytes match no supported capture format.
    #[error("not a capture: neither pcapng nor pcap")]
    NotACapture,
    /// The first bytes are those of gzip, zstd, xz or lz4.
    #[error("not a capture but a compressed file: decompress it first")]
    Compressed,
    /// The input ends within a block that begins at this byte offset.
    #[error("the capture is cut off: it ends within the block that begins at byte {0}")]
    Truncated(u64),
    /// A block is inconsistent.
    #[error("the capture is damaged: {what} in the block that begins at byte {at}")]
    Malformed {
        /// Byte offset of the block.
        at: u64,
        /// Description of the defect.
        what: &'static str,
    },
    /// The capture contains simple packet blocks, which have no timestamp.
    #[error("the capture has packets without a timestamp (simple packet blocks)")]
    NoTime,
}

/// Reads the packets of a capture in file order.
///
/// # Examples
///
/// ```
/// use lasthop::units::Time;
/// use lasthop_wire::{CaptureReader, CaptureWriter, Interface, ReadError};
///
/// let mut writer = CaptureWriter::new(Vec::new(), &[Interface::new("phone", "")]).unwrap();
/// writer.write(0, Time(1_000), &[0x45, 0, 0, 20], None).unwrap();
/// let capture = writer.finish().unwrap();
///
/// let mut reader = CaptureReader::new(&capture[..]).unwrap();
/// let packet = reader.next_packet().unwrap().unwrap();
/// assert_eq!((packet.time, packet.data), (Time(1_000), vec![0x45, 0, 0, 20]));
/// assert_eq!(reader.interfaces()[packet.interface].name, "phone");
/// assert_eq!(reader.next_packet().unwrap(), None);
///
/// // A capture that ends within a block.
/// let mut reader = CaptureReader::new(&capture[..capture.len() - 1]).unwrap();
/// assert!(matches!(reader.next_packet(), Err(ReadError::Truncated(_))));
/// ```
pub struct CaptureReader<R: Read> {
    input: BufReader<R>,
    /// Number of bytes read.
    position: u64,
    format: Format,
    interfaces: Vec<Interface>,
    /// Timestamp resolution and offset of each interface.
    clocks: Vec<Clock>,
    /// Index of the current section's first interface: pcapng numbers interfaces per section.
    section: usize,
}

#[derive(Clone, Copy)]
enum Format {
    Legacy(Order, Clock),
    Ng(Order),
}

#[derive(Clone, Copy, PartialEq)]
enum Order {
    Little,
    Big,
}

impl Order {
    fn u16(self, b: &[u8], at: usize) -> Option<u16> {
        let b: [u8; 2] = *b.get(at..)?.first_chunk()?;
        Some(if self == Order::Little { u16::from_le_bytes(b) } else { u16::from_be_bytes(b) })
    }

    fn u32(self, b: &[u8], at: usize) -> Option<u32> {
        let b: [u8; 4] = *b.get(at..)?.first_chunk()?;
        Some(if self == Order::Little { u32::from_le_bytes(b) } else { u32::from_be_bytes(b) })
    }
}

/// Timestamp resolution and offset of an interface.
#[derive(Clone, Copy)]
struct Clock {
    units_per_second: u128,
    /// Offset to add, seconds (`if_tsoffset`).
    offset: i64,
}

impl Clock {
    const MICROSECONDS: Clock = Clock { units_per_second: 1_000_000, offset: 0 };

    /// Nanoseconds since 1970, rounded down and clamped to the range of [`Time`] (1970 to 2554).
    fn time(self, units: u64) -> Time {
        let ns = u128::from(units) * 1_000_000_000 / self.units_per_second;
        let ns = ns as i128 + i128::from(self.offset) * 1_000_000_000;
        Time(ns.clamp(0, i128::from(u64::MAX)) as u64)
    }
}

impl<R: Read> CaptureReader<R> {
    /// Reads the header of the capture.
    ///
    /// # Errors
    ///
    /// [`ReadError`] if the input cannot be read, is empty or is not a pcapng or pcap file.
    pub fn new(input: R) -> Result<Self, ReadError> {
        let mut reader = CaptureReader {
            input: BufReader::with_capacity(1 << 16, input),
            position: 0,
            format: Format::Ng(Order::Little),
            interfaces: Vec::new(),
            clocks: Vec::new(),
            section: 0,
        };
        let magic = reader.bytes(4)?;
        match *magic.as_slice() {
            [] => Err(ReadError::Empty),
            [0x0a, 0x0d, 0x0d, 0x0a] => {
                reader.section_header(0)?;
                Ok(reader)
            }
            [0xd4, 0xc3, 0xb2, 0xa1] => reader.legacy(Order::Little, Clock::MICROSECONDS),
            [0xa1, 0xb2, 0xc3, 0xd4] => reader.legacy(Order::Big, Clock::MICROSECONDS),
            [0x4d, 0x3c, 0xb2, 0xa1] => {
                reader.legacy(Order::Little, Clock { units_per_second: 1_000_000_000, offset: 0 })
            }
            [0xa1, 0xb2, 0x3c, 0x4d] => {
                reader.legacy(Order::Big, Clock { units_per_second: 1_000_000_000, offset: 0 })
            }
            [0x1f, 0x8b, ..]
            | [0x28, 0xb5, 0x2f, 0xfd]
            | [0xfd, b'7', b'z', b'X']
            | [0x04, 0x22, 0x4d, 0x18] => Err(ReadError::Compressed),
            _ => Err(ReadError::NotACapture),
        }
    }

    /// The interfaces read until now. Later sections may append more.
    pub fn interfaces(&self) -> &[Interface] {
        &self.interfaces
    }

    /// Reads the next packet; `None` at the end of the input.
    ///
    /// # Errors
    ///
    /// [`ReadError`] if the input cannot be read, or a block is truncated or malformed.
    pub fn next_packet(&mut self) -> Result<Option<Packet>, ReadError> {
        match self.format {
            Format::Legacy(order, clock) => self.next_legacy(order, clock),
            Format::Ng(order) => self.next_ng(order),
        }
    }

    /// Reads up to `n` bytes, fewer at the end of the input. Memory grows with the bytes actually
    /// read, so a corrupt length field cannot cause a large allocation.
    fn bytes(&mut self, n: usize) -> Result<Vec<u8>, ReadError> {
        let mut bytes = Vec::with_capacity(n.min(1 << 16));
        (&mut self.input).take(n as u64).read_to_end(&mut bytes)?;
        self.position += bytes.len() as u64;
        Ok(bytes)
    }

    /// Reads exactly `n` bytes of the block that begins at byte `at`.
    fn exactly(&mut self, n: usize, at: u64) -> Result<Vec<u8>, ReadError> {
        let bytes = self.bytes(n)?;
        if bytes.len() == n { Ok(bytes) } else { Err(ReadError::Truncated(at)) }
    }

    fn legacy(mut self, order: Order, clock: Clock) -> Result<Self, ReadError> {
        let header = self.exactly(20, 0)?;
        // The upper bits give the length of the frame check sequence; the link type is in the lower
        // 16 bits (draft-ietf-opsawg-pcap section 4).
        let link_type = order.u32(&header, 16).unwrap_or_default() as u16;
        self.interfaces.push(Interface {
            name: String::new(),
            description: String::new(),
            link_type: LinkType(link_type),
        });
        self.format = Format::Legacy(order, clock);
        Ok(self)
    }

    fn next_legacy(&mut self, order: Order, clock: Clock) -> Result<Option<Packet>, ReadError> {
        let at = self.position;
        let header = self.bytes(16)?;
        if header.is_empty() {
            return Ok(None);
        }
        let field = |i| order.u32(&header, i).ok_or(ReadError::Truncated(at));
        let (seconds, fraction, captured, original_len) =
            (field(0)?, field(4)?, field(8)?, field(12)?);
        let units = clock.units_per_second as u64;
        let time = clock.time(u64::from(seconds) * units + u64::from(fraction));
        let data = self.exactly(captured as usize, at)?;
        Ok(Some(Packet {
            interface: 0,
            time,
            data,
            original_len: original_len.max(captured),
            comment: None,
        }))
    }

    fn next_ng(&mut self, mut order: Order) -> Result<Option<Packet>, ReadError> {
        loop {
            let at = self.position;
            let kind = self.bytes(4)?;
            if kind.is_empty() {
                return Ok(None);
            }
            let kind = order.u32(&kind, 0).ok_or(ReadError::Truncated(at))?;
            if kind == code::SECTION_HEADER {
                order = self.section_header(at)?;
                continue;
            }
            let length = self.exactly(4, at)?;
            let body = self.body(order, at, &length, 8)?;
            match kind {
                code::INTERFACE => self.interface(order, at, &body)?,
                code::ENHANCED_PACKET => {
                    return self.packet(order, at, &body, order.u32(&body, 0)).map(Some);
                }
                // The older form has 16 bits of interface number and 16 bits of drop count in the
                // first field.
                code::OLD_PACKET => {
                    return self
                        .packet(order, at, &body, order.u16(&body, 0).map(u32::from))
                        .map(Some);
                }
                code::SIMPLE_PACKET => return Err(ReadError::NoTime),
                _ => {}
            }
        }
    }

    /// Reads the rest of a block of which `before` bytes have been read, and checks its two
    /// lengths.
    fn body(
        &mut self,
        order: Order,
        at: u64,
        length: &[u8],
        before: usize,
    ) -> Result<Vec<u8>, ReadError> {
        let malformed = |what| ReadError::Malformed { at, what };
        let total = order.u32(length, 0).unwrap_or_default() as usize;
        if total < before + 4 || !total.is_multiple_of(4) {
            return Err(malformed("an impossible length"));
        }
        let mut body = self.exactly(total - before, at)?;
        let trailer = body.split_off(total - before - 4);
        if trailer != length { Err(malformed("two different lengths")) } else { Ok(body) }
    }

    /// Reads the section header after its block type. It determines the byte order of the section.
    fn section_header(&mut self, at: u64) -> Result<Order, ReadError> {
        let head = self.exactly(8, at)?;
        let order = match (Order::Little.u32(&head, 4), Order::Big.u32(&head, 4)) {
            (Some(code::BYTE_ORDER), _) => Order::Little,
            (_, Some(code::BYTE_ORDER)) => Order::Big,
            _ => return Err(ReadError::Malformed { at, what: "no byte-order magic" }),
        };
        let length = head.get(..4).unwrap_or_default();
        let body = self.body(order, at, length, 12)?;
        if order.u16(&body, 0) != Some(1) {
            return Err(ReadError::Malformed { at, what: "an unknown version of pcapng" });
        }
        self.format = Format::Ng(order);
        self.section = self.interfaces.len();
        Ok(order)
    }

    fn interface(&mut self, order: Order, at: u64, body: &[u8]) -> Result<(), ReadError> {
        let malformed = |what| ReadError::Malformed { at, what };
        let link_type = LinkType(order.u16(body, 0).ok_or(malformed("no link type"))?);
        let mut interface =
            Interface { name: String::new(), description: String::new(), link_type };
        let mut clock = Clock::MICROSECONDS;
        for (option, value) in Options::new(order, body.get(8..)) {
            let text = || String::from_utf8_lossy(value).trim_end_matches('\0').to_string();
            match option {
                code::IF_NAME => interface.name = text(),
                code::IF_DESCRIPTION => interface.description = text(),
                code::IF_TSRESOL => {
                    let exponent = value.first().copied().unwrap_or(6);
                    let base: u128 = if exponent & 0x80 == 0 { 10 } else { 2 };
                    clock.units_per_second = base
                        .checked_pow(u32::from(exponent & 0x7f))
                        .ok_or(malformed("an impossible time resolution"))?;
                }
                code::IF_TSOFFSET => {
                    let (low, high) = if order == Order::Little { (0, 4) } else { (4, 0) };
                    if let (Some(low), Some(high)) = (order.u32(value, low), order.u32(value, high))
                    {
                        clock.offset = (u64::from(high) << 32 | u64::from(low)) as i64;
                    }
                }
                _ => {}
            }
        }
        self.interfaces.push(interface);
        self.clocks.push(clock);
        Ok(())
    }

    fn packet(
        &self,
        order: Order,
        at: u64,
        body: &[u8],
        interface: Option<u32>,
    ) -> Result<Packet, ReadError> {
        let malformed = |what| ReadError::Malformed { at, what };
        let field = |i| order.u32(body, i).ok_or(malformed("a packet without its header"));
        let (high, low, captured, original_len) =
            (field(4)?, field(8)?, field(12)? as usize, field(16)?);
        let interface = self.section + interface.unwrap_or_default() as usize;
        let clock = self
            .clocks
            .get(interface)
            .ok_or(malformed("a packet of an interface that is not described"))?;
        let (data, rest) = body
            .get(20..)
            .and_then(|content| content.split_at_checked(captured))
            .ok_or(malformed("a packet longer than its block"))?;
        let options = Options::new(order, rest.get(captured.next_multiple_of(4) - captured..));
        let comment = options
            .into_iter()
            .find(|o| o.0 == code::COMMENT)
            .map(|o| String::from_utf8_lossy(o.1).into_owned());
        let time = clock.time(u64::from(high) << 32 | u64::from(low));
        Ok(Packet {
            interface,
            time,
            data: data.to_vec(),
            original_len: original_len.max(captured as u32),
            comment,
        })
    }
}

/// The options of a block, up to the end-of-options option or the first one that exceeds the block.
struct Options<'a> {
    order: Order,
    rest: &'a [u8],
}

impl<'a> Options<'a> {
    fn new(order: Order, bytes: Option<&'a [u8]>) -> Self {
        Options { order, rest: bytes.unwrap_or_default() }
    }
}

impl<'a> Iterator for Options<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let (code, length) =
            (self.order.u16(self.rest, 0)?, usize::from(self.order.u16(self.rest, 2)?));
        let value = self.rest.get(4..4 + length).filter(|_| code != code::END)?;
        self.rest = self.rest.get(4 + length.next_multiple_of(4)..).unwrap_or_default();
        Some((code, value))
    }
}
