//! Captures: arbitrary bytes are read as pcap or pcapng; valid captures must round-trip.

use std::io::{self, Read};

use lasthop_wire::{CaptureReader, CaptureWriter, Interface, Packet, ReadError, Remark};

/// The input is the bytes of a capture.
pub fn run(data: &[u8]) {
    let whole = read(data);
    let (_, chunked) = read(Chunks(data));
    assert_eq!(whole.1.is_ok(), chunked.is_ok(), "the result depends on how the input is split");
    let (interfaces, outcome) = whole;
    let packets = match outcome {
        Ok(packets) => packets,
        Err(error) => return crate::check_message(&error.to_string()),
    };
    for comment in packets.iter().filter_map(|p| p.comment.as_deref()) {
        if let Some(remark) = Remark::read(comment) {
            assert_eq!(Remark::read(&remark.to_string()), Some(remark));
        }
    }
    let (reread_interfaces, reread_packets) = read(written(&interfaces, &packets).as_slice());
    assert_eq!(reread_interfaces, interfaces);
    assert_eq!(reread_packets.expect("a written capture can be read"), packets);
}

/// The interfaces that were read, and all packets or the first error.
pub(crate) fn read(input: impl Read) -> (Vec<Interface>, Result<Vec<Packet>, ReadError>) {
    let mut reader = match CaptureReader::new(input) {
        Ok(reader) => reader,
        Err(error) => return (Vec::new(), Err(error)),
    };
    let mut packets = Vec::new();
    let outcome = loop {
        match reader.next_packet() {
            Ok(Some(packet)) => packets.push(packet),
            Ok(None) => break Ok(packets),
            Err(error) => break Err(error),
        }
    };
    (reader.interfaces().to_vec(), outcome)
}

fn written(interfaces: &[Interface], packets: &[Packet]) -> Vec<u8> {
    let mut writer =
        CaptureWriter::new(Vec::new(), interfaces).expect("writing to a vector succeeds");
    for p in packets {
        let comment = p.comment.as_deref();
        let outcome = writer.write_cut(p.interface, p.time, &p.data, p.original_len, comment);
        outcome.expect("all interfaces that were read are written");
    }
    writer.finish().expect("writing to a vector succeeds")
}

/// Input that returns at most three bytes per read.
struct Chunks<'a>(&'a [u8]);

impl Read for Chunks<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.0.len().min(buffer.len()).min(3);
        let (head, rest) = self.0.split_at(count);
        buffer[..count].copy_from_slice(head);
        self.0 = rest;
        Ok(count)
    }
}
