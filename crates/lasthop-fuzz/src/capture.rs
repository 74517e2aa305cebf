//! Captures: any bytes are read as pcap or pcapng, and what was read is written and read again.

use std::io::{self, Read};

use lasthop_wire::{CaptureReader, CaptureWriter, Interface, Packet, ReadError, Remark};

/// The bytes of a capture.
pub fn run(data: &[u8]) {
    let whole = read(data);
    let (_, pieces) = read(Pieces(data));
    assert_eq!(whole.1.is_ok(), pieces.is_ok(), "it depends on how the bytes come");
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
    let (interfaces_again, packets_again) = read(written(&interfaces, &packets).as_slice());
    assert_eq!(interfaces_again, interfaces);
    assert_eq!(packets_again.expect("what was written can be read"), packets);
}

/// The interfaces that were met, and all packets or the first mistake.
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
    let mut writer = CaptureWriter::new(Vec::new(), interfaces).expect("a vector takes all");
    for p in packets {
        let comment = p.comment.as_deref();
        let outcome = writer.write_cut(p.interface, p.time, &p.data, p.original_len, comment);
        outcome.expect("an interface that was read is one that was written");
    }
    writer.finish().expect("a vector takes all")
}

/// Input that comes three bytes at a time.
struct Pieces<'a>(&'a [u8]);

impl Read for Pieces<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.0.len().min(buffer.len()).min(3);
        let (head, rest) = self.0.split_at(count);
        buffer[..count].copy_from_slice(head);
        self.0 = rest;
        Ok(count)
    }
}
