//! TCP options: any bytes can be read, and what was read is written as the same bytes.

use lasthop_wire::options::{MAX_OPTIONS, OptionBytes, TcpOption, options};
use lasthop_wire::snack::{SnackOption, read_snack};

use crate::input::Input;

/// An acknowledgment number and a segment size for SNACK, then the option bytes.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let (ack, mss): (u64, u32) = (input.value::<u64>() >> 8, u32::from(input.value::<u16>()));
    let bytes = input.rest();
    let mut written = OptionBytes::default();
    let (mut count, mut end) = (0, 0);
    for option in options(bytes) {
        count += 1;
        let Ok(option) = option else { break };
        asked(option, ack, mss);
        let length = length_of(option);
        let fits = end + length <= MAX_OPTIONS;
        let before = written;
        assert_eq!(written.push(option).is_ok(), fits, "room for {option:?} at byte {end}");
        if !fits {
            assert_eq!(written, before);
            break;
        }
        end += length;
    }
    assert!(count <= bytes.len());
    let padded = written.padded();
    assert_eq!(padded[..end], bytes[..end]);
    assert!(padded.len() % 4 == 0 && padded[end..].iter().all(|&b| b == 0));
}

/// Bytes of an option on the wire.
fn length_of(option: TcpOption<'_>) -> usize {
    match option {
        TcpOption::NoOperation => 1,
        TcpOption::SackPermitted => 2,
        TcpOption::WindowScale(_) => 3,
        TcpOption::MaximumSegmentSize(_) => 4,
        TcpOption::Timestamps { .. } => 10,
        TcpOption::Sack(blocks) => 2 + 8 * blocks.as_slice().len(),
        TcpOption::Snack { map, .. } => 6 + map.len(),
        TcpOption::Experimental { data, .. } => 4 + data.len(),
        TcpOption::Other { data, .. } => 2 + data.len(),
    }
}

/// A SNACK has ordered holes and is read from its own option again.
fn asked(option: TcpOption<'_>, ack: u64, mss: u32) {
    let Some(snack) = read_snack(option, ack, mss) else { return };
    let mut at = ack;
    for hole in snack.holes() {
        assert!(at <= hole.start && hole.start <= hole.end, "{snack:?}: {hole:?} after {at}");
        at = hole.end;
    }
    let again = SnackOption::of(&snack, ack).expect("what was read fits the fields");
    assert_eq!(read_snack(again.option(), ack, mss), Some(snack));
}
