//! pcapng out: one section, several interfaces, time in nanoseconds.

use std::io::{self, BufWriter, Write};

use lasthop::units::Time;
use thiserror::Error;

use super::{Interface, code};

/// Why a capture cannot be written.
#[derive(Debug, Error)]
pub enum WriteError {
    /// The disk is full, the pipe is closed, …
    #[error("cannot write the capture: {0}")]
    Io(#[from] io::Error),
    /// The interface was not named when the writer was made.
    #[error("the capture has no interface {0}")]
    NoInterface(usize),
    /// A packet that no length field holds.
    #[error("a packet of {0} bytes does not fit into a capture")]
    TooLong(usize),
}

/// Writes a pcapng capture. Call [`finish`](CaptureWriter::finish) at the end: what is still
/// buffered is written there.
pub struct CaptureWriter<W: Write> {
    output: BufWriter<W>,
    interfaces: usize,
    block: Vec<u8>,
}

impl<W: Write> CaptureWriter<W> {
    /// Writes the section header and the interfaces.
    pub fn new(output: W, interfaces: &[Interface]) -> Result<Self, WriteError> {
        let mut writer = CaptureWriter {
            output: BufWriter::with_capacity(1 << 16, output),
            interfaces: interfaces.len(),
            block: Vec::new(),
        };
        writer.section_header()?;
        for interface in interfaces {
            writer.interface(interface)?;
        }
        Ok(writer)
    }

    /// Appends a packet that is complete. `interface` counts from 0; the comment shows in
    /// Wireshark.
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

    /// Appends a packet of which only the beginning is there; `original_len` is its length on the
    /// wire in bytes.
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

    /// Writes out what is buffered and gives the output back.
    pub fn finish(self) -> Result<W, WriteError> {
        self.output.into_inner().map_err(|e| WriteError::Io(e.into_error()))
    }

    fn section_header(&mut self) -> Result<(), WriteError> {
        self.begin(code::SECTION_HEADER);
        self.u32(code::BYTE_ORDER);
        self.u32(1); // version 1.0
        self.block.extend_from_slice(&u64::MAX.to_le_bytes()); // length of the section: not known
        self.option(
            code::USER_APPLICATION,
            concat!("lasthop ", env!("CARGO_PKG_VERSION")).as_bytes(),
        );
        self.option(code::END, &[]);
        self.end()
    }

    fn interface(&mut self, interface: &Interface) -> Result<(), WriteError> {
        self.begin(code::INTERFACE);
        self.u32(u32::from(interface.link_type.0));
        self.u32(0); // packets are not cut
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
        self.u32(0); // the length, once it is known
    }

    fn u32(&mut self, value: u32) {
        self.block.extend_from_slice(&value.to_le_bytes());
    }

    fn padded(&mut self, bytes: &[u8]) {
        self.block.extend_from_slice(bytes);
        self.block.resize(self.block.len().next_multiple_of(4), 0);
    }

    /// An option; a text too long for its 16-bit length is cut between characters.
    fn option(&mut self, code: u16, mut value: &[u8]) {
        if value.len() > usize::from(u16::MAX) {
            let cut =
                (0..=usize::from(u16::MAX)).rev().find(|&i| value[i] & 0xc0 != 0x80).unwrap_or(0);
            value = &value[..cut];
        }
        self.block.extend_from_slice(&code.to_le_bytes());
        self.block.extend_from_slice(&(value.len() as u16).to_le_bytes());
        self.padded(value);
    }

    fn end(&mut self) -> Result<(), WriteError> {
        let length = (self.block.len() + 4) as u32;
        self.block[4..8].copy_from_slice(&length.to_le_bytes());
        self.u32(length);
        Ok(self.output.write_all(&self.block)?)
    }
}
