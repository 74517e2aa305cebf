//! TCP options: arbitrary bytes are parsed, and writing the parsed options gives the same bytes.

use lasthop_wire::options::{MAX_OPTIONS, OptionBytes, TcpOption, options};
use lasthop_wire::snack::{SnackOption, read_snack};

use crate::input::Input;

/// The input is an acknowledgment number and an MSS for SNACK, then the option bytes.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let (ack, mss): (u64, u32) = (input.value::<u64>() >> 8, u32::from(input.value::<u16>()));
    let bytes = input.rest();
    let mut written = OptionBytes::default();
    let (mut count, mut end) = (0, 0);
    for option in options(bytes) {
        count += 1;
        let Ok(option) = option else { break };
        check_snack(option, ack, mss);
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

/// Length of an option on the wire, bytes.
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

/// The holes of a SNACK are in order, and its option round-trips.
fn check_snack(option: TcpOption<'_>, ack: u64, mss: u32) {
    let Some(snack) = read_snack(option, ack, mss) else { return };
    let mut at = ack;
    for hole in snack.holes() {
        assert!(at <= hole.start && hole.start <= hole.end, "{snack:?}: {hole:?} after {at}");
        at = hole.end;
    }
    let written = SnackOption::of(&snack, ack).expect("a decoded SNACK fits the fields");
    assert_eq!(read_snack(written.option(), ack, mss), Some(snack));
}
