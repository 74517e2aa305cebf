//! Conversion between [`Snack`] and its TCP option (CCSDS 714.0, kind 21).

use lasthop::snack::Snack;

use crate::options::TcpOption;

/// The fields of a SNACK option that requests at least one segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnackOption {
    offset: u16,
    size: u16,
    map: [u8; 9],
    map_bytes: usize,
}

impl SnackOption {
    /// The option for `snack` on an ACK with acknowledgment number `ack` (a stream offset in
    /// bytes), counted in blocks of `snack.unit` bytes. The first hole begins in the block that
    /// holds its first byte. `None` if `snack` requests nothing or its values exceed the 16-bit
    /// fields.
    pub fn of(snack: &Snack, ack: u64) -> Option<SnackOption> {
        let offset = snack.start.checked_sub(ack)?.checked_div(u64::from(snack.unit))?;
        let mut map = [0; 9];
        let map_bytes = snack.map_bytes() as usize;
        // The map ends with the block after the last hole, which has arrived: a 0 is a hole only if
        // a 1 follows it.
        let last = 64 - snack.more.leading_zeros() as usize;
        for i in (0..=last).filter(|&i| map_bytes > 0 && (i == last || snack.more >> i & 1 == 0)) {
            *map.get_mut(i / 8)? |= 0x80 >> (i % 8);
        }
        let size = u16::try_from(snack.blocks).ok().filter(|&s| s > 0)?;
        Some(SnackOption { offset: u16::try_from(offset).ok()?, size, map, map_bytes })
    }

    /// This option as a [`TcpOption`].
    pub fn option(&self) -> TcpOption<'_> {
        TcpOption::Snack {
            offset: self.offset,
            size: self.size,
            map: self.map.get(..self.map_bytes).unwrap_or(&self.map),
        }
    }
}

/// Decodes a SNACK option on an ACK with acknowledgment number `ack` (a stream offset in bytes) for
/// segments of `mss` bytes. `None` for other options and for requests of size 0. Only the first 64
/// segments of the map are used.
pub fn read_snack(option: TcpOption<'_>, ack: u64, mss: u32) -> Option<Snack> {
    let TcpOption::Snack { offset, size, map } = option else { return None };
    if size == 0 || mss == 0 {
        return None;
    }
    let bits = || {
        map.iter().flat_map(|byte| (0..8).map(move |i| byte & 0x80 >> i > 0)).enumerate().take(65)
    };
    let last = bits().filter(|b| b.1).last().map_or(0, |b| b.0);
    let more = bits()
        .filter(|b| !b.1 && b.0 < last)
        .fold(0, |all, (i, _)| all | 1u64.checked_shl(i as u32).unwrap_or(0));
    Some(Snack {
        start: ack.saturating_add(u64::from(offset) * u64::from(mss)),
        blocks: u32::from(size),
        unit: mss,
        more,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{OptionBytes, options};
    use lasthop::segment::Block;
    use proptest::prelude::*;

    fn bytes(snack: &Snack, ack: u64) -> Vec<u8> {
        let mut bytes = OptionBytes::default();
        bytes.push(SnackOption::of(snack, ack).unwrap().option()).unwrap();
        bytes.padded().to_vec()
    }

    #[test]
    fn one_hole_and_two_more() {
        let holes =
            [(5000, 7000), (8000, 9000), (10_000, 11_000)].map(|(start, end)| Block { start, end });
        let snack = Snack::of(holes.into_iter(), 1000).unwrap();
        let wire = bytes(&snack, 3000);
        assert_eq!(wire, [21, 7, 0, 2, 0, 2, 0b1010_1000, 0]);
        assert_eq!(wire.len() as u32, snack.bytes());
        let read = options(&wire).flatten().find_map(|o| read_snack(o, 3000, 1000));
        assert_eq!(read, Some(snack));
        // One hole needs no map.
        let alone = Snack::of([Block { start: 3000, end: 4000 }].into_iter(), 1000).unwrap();
        assert_eq!(bytes(&alone, 3000), [21, 6, 0, 0, 0, 1, 0, 0]);
    }

    /// Options that are too short, without a first hole or of another kind request nothing. Zeros
    /// at the end of a map are not holes.
    #[test]
    fn malformed_options_request_nothing() {
        for bad in [
            &[21, 2][..],
            &[21, 5, 0, 0, 0],
            &[21, 6, 0, 2, 0, 0],
            &[21, 40, 0, 2, 0, 1],
            &[22, 6, 0, 2, 0, 1],
        ] {
            assert_eq!(
                options(bad).flatten().find_map(|o| read_snack(o, 0, 1000)),
                None,
                "{bad:?}"
            );
        }
        let read =
            |bytes: &[u8]| options(bytes).flatten().find_map(|o| read_snack(o, 0, 1000)).unwrap();
        assert_eq!(read(&[21, 9, 0, 1, 0, 1, 0b0100_0000, 0, 0]).more, 0b1);
        assert_eq!(read(&[21, 8, 0, 1, 0, 1, 0, 0]).more, 0);
        assert_eq!(read_snack(TcpOption::Snack { offset: 1, size: 1, map: &[] }, 0, 0), None);
        assert_eq!(SnackOption::of(&Snack::NONE, 0), None);
        let far = Snack { start: 70_000_000, blocks: 1, unit: 1000, more: 0 };
        assert_eq!(SnackOption::of(&far, 0), None);
        assert_eq!(
            SnackOption::of(&Snack { start: 0, ..far }, 1000),
            None,
            "below the acknowledgment number"
        );
    }

    proptest! {
        #[test]
        fn snack_options_round_trip(
            offset in 0u64..60_000,
            blocks in 1u32..60_000,
            unit in 1u32..9000,
            more: u64,
            shift in 0u32..64,
            ack in 0u64..1 << 40,
        ) {
            let start = ack + offset * u64::from(unit);
            let snack = Snack { start, blocks, unit, more: more >> shift };
            let wire = bytes(&snack, ack);
            prop_assert_eq!(wire.len() as u32, snack.bytes());
            let read = options(&wire).flatten().find_map(|o| read_snack(o, ack, unit));
            prop_assert_eq!(read, Some(snack));
        }

        #[test]
        fn arbitrary_bytes_are_parsed_without_panic(
            bytes in proptest::collection::vec(any::<u8>(), 0..40),
            ack: u64,
            mss: u32,
        ) {
            for kind in [bytes.first().copied().unwrap_or(0), 21] {
                let mut bytes = bytes.clone();
                if let Some(first) = bytes.first_mut() {
                    *first = kind;
                }
                for snack in options(&bytes).flatten().filter_map(|o| read_snack(o, ack, mss)) {
                    prop_assert!(snack.holes().all(|h| h.start <= h.end));
                }
            }
        }
    }
}
