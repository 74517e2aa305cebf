//! pcapng writer: one section, several interfaces, timestamps in nanoseconds.

use std::io::{self, BufWriter, Write};

use lasthop::units::Time;
use thiserror::Error;

use super::{Interface, code};

/// Why a capture cannot be written.
#[derive(Debug, Error)]
pub enum WriteError {
    /// The output cannot be written: the disk is full, the pipe is closed, …
    #[error("cannot write the capture: {0}")]
    Io(#[from] io::Error),
    /// No interface with this index was passed to [`CaptureWriter::new`].
    #[error("the capture has no interface {0}")]
    NoInterface(usize),
    /// The packet is too long for the 32-bit length fields; its length in bytes.
    #[error("a packet of {0} bytes does not fit into a capture")]
    TooLong(usize),
}

/// Writes a pcapng capture. Call [`finish`](CaptureWriter::finish) at the end to flush the buffer.
///
/// # Examples
///
/// ```
/// use lasthop::units::Time;
/// use lasthop_wire::{CaptureWriter, Interface, WriteError};
///
/// let interfaces = [Interface::new("bs", "base station")];
/// let mut writer = CaptureWriter::new(Vec::new(), &interfaces).unwrap();
/// writer.write(0, Time(0), &[0x45], Some("dropped by the queue")).unwrap();
/// assert!(matches!(writer.write(1, Time(0), &[], None), Err(WriteError::NoInterface(1))));
/// let capture = writer.finish().unwrap();
/// assert_eq!(capture[..4], [0x0a, 0x0d, 0x0d, 0x0a]);
/// ```
pub struct CaptureWriter<W: Write> {
    output: BufWriter<W>,
    interfaces: usize,
    snaplen: u32,
    block: Vec<u8>,
}

impl<W: Write> CaptureWriter<W> {
    /// Writes the section header and the interfaces.
    ///
    /// # Errors
    ///
    /// [`WriteError::Io`] if the output cannot be written.
    pub fn new(output: W, interfaces: &[Interface]) -> Result<Self, WriteError> {
        Self::with_snaplen(output, interfaces, 0)
    }

    /// As [`new`](Self::new); the interfaces state that at most `snaplen` bytes of a packet are
    /// captured (0: no limit). [`write_cut`](Self::write_cut) does not check this.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    pub fn with_snaplen(
        output: W,
        interfaces: &[Interface],
        snaplen: u32,
    ) -> Result<Self, WriteError> {
        let mut writer = CaptureWriter {
            output: BufWriter::with_capacity(1 << 16, output),
            interfaces: 0,
            snaplen,
            block: Vec::new(),
        };
        writer.section_header()?;
        for interface in interfaces {
            writer.add_interface(interface)?;
        }
        Ok(writer)
    }

    /// Adds an interface after those given to [`new`](Self::new); returns its index. Readers learn
    /// of it only here, so that a capture without its packets need not have it.
    ///
    /// # Errors
    ///
    /// [`WriteError::Io`] if the output cannot be written.
    pub fn add_interface(&mut self, interface: &Interface) -> Result<usize, WriteError> {
        self.interface(interface, self.snaplen)?;
        self.interfaces += 1;
        Ok(self.interfaces - 1)
    }

    /// Appends a complete packet. `interface` is an index into the list given to
    /// [`new`](Self::new); Wireshark shows the comment.
    ///
    /// # Errors
    ///
    /// [`WriteError`] if the interface does not exist, the packet is too long or the output cannot
    /// be written.
    pub fn write(
        &mut self,
        interface: usize,
        time: Time,
        packet: &[u8],
        comment: Option<&str>,
    ) -> Result<(), WriteError> {
        let length = u32::try_from(packet.len()).map_err(|_| WriteError::TooLong(packet.len()))?;
        self.write_cut(interface, time, packet, length, comment)
    }

    /// Appends a truncated packet; `original_len` is its length on the wire in bytes.
    ///
    /// # Errors
    ///
    /// As [`write`](Self::write).
    pub fn write_cut(
        &mut self,
        interface: usize,
        time: Time,
        packet: &[u8],
        original_len: u32,
        comment: Option<&str>,
    ) -> Result<(), WriteError> {
        if interface >= self.interfaces {
            return Err(WriteError::NoInterface(interface));
        }
        // The lengths of packet, comment and block are 32-bit fields.
        let length = u32::try_from(packet.len())
            .ok()
            .filter(|&l| l < u32::MAX - (1 << 17))
            .ok_or(WriteError::TooLong(packet.len()))?;
        self.begin(code::ENHANCED_PACKET);
        for field in [interface as u32, (time.0 >> 32) as u32, time.0 as u32, length, original_len]
        {
            self.u32(field);
        }
        self.padded(packet);
        if let Some(comment) = comment {
            self.option(code::COMMENT, comment.as_bytes());
            self.option(code::END, &[]);
        }
        self.end()
    }

    /// Flushes the buffer and returns the output.
    ///
    /// # Errors
    ///
    /// [`WriteError::Io`] if the output cannot be written.
    pub fn finish(self) -> Result<W, WriteError> {
        self.output.into_inner().map_err(|e| WriteError::Io(e.into_error()))
    }

    fn section_header(&mut self) -> Result<(), WriteError> {
        self.begin(code::SECTION_HEADER);
        self.u32(code::BYTE_ORDER);
        self.u32(1); // version 1.0
        self.block.extend_from_slice(&u64::MAX.to_le_bytes()); // section length: unspecified
        self.option(
            code::USER_APPLICATION,
            concat!("lasthop ", env!("CARGO_PKG_VERSION")).as_bytes(),
        );
        self.option(code::END, &[]);
        self.end()
    }

    fn interface(&mut self, interface: &Interface, snaplen: u32) -> Result<(), WriteError> {
        self.begin(code::INTERFACE);
        self.u32(u32::from(interface.link_type.0));
        self.u32(snaplen); // 0: no limit
        for (code, text) in
            [(code::IF_NAME, &interface.name), (code::IF_DESCRIPTION, &interface.description)]
        {
            if !text.is_empty() {
                self.option(code, text.as_bytes());
            }
        }
        self.option(code::IF_TSRESOL, &[9]);
        self.option(code::END, &[]);
        self.end()
    }

    fn begin(&mut self, kind: u32) {
        self.block.clear();
        self.u32(kind);
        self.u32(0); // block length, set by `end`
    }

    fn u32(&mut self, value: u32) {
        self.block.extend_from_slice(&value.to_le_bytes());
    }

    fn padded(&mut self, bytes: &[u8]) {
        self.block.extend_from_slice(bytes);
        self.block.resize(self.block.len().next_multiple_of(4), 0);
    }

    /// Writes an option. A text longer than the 16-bit length allows is truncated at a character
    /// boundary.
    fn option(&mut self, code: u16, mut value: &[u8]) {
        if value.len() > usize::from(u16::MAX) {
            let starts = |i: &usize| value.get(*i).is_some_and(|byte| byte & 0xc0 != 0x80);
            let cut = (0..=usize::from(u16::MAX)).rev().find(starts).unwrap_or(0);
            value = value.get(..cut).unwrap_or_default();
        }
        self.block.extend_from_slice(&code.to_le_bytes());
        self.block.extend_from_slice(&(value.len() as u16).to_le_bytes());
        self.padded(value);
    }

    fn end(&mut self) -> Result<(), WriteError> {
        let length = (self.block.len() + 4) as u32;
        // `begin` has reserved the field.
        if let Some(field) = self.block.get_mut(4..8) {
            field.copy_from_slice(&length.to_le_bytes());
        }
        self.u32(length);
        Ok(self.output.write_all(&self.block)?)
    }
}
