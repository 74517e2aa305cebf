//! The capacity of each pair.

use super::{Bench, mac, station, wifi};
use crate::link::cell::config::StationConfig;
use crate::link::cell::phy::Generation;

fn bench(near: u32, far: u32) -> Bench {
    let with = |node, mcs| StationConfig { mcs: Some(mcs), ..station(node) };
    let stations = vec![station(0), with(1, near), with(2, far)];
    Bench::new(mac(), wifi(Generation::Ht), stations, 1538)
}

#[test]
fn each_pair_has_the_capacity_of_its_mcs() {
    let mixed = bench(7, 0).cell;
    for (to, mcs) in [(1, 7), (2, 0)] {
        let alone = bench(mcs, mcs).cell.rate_of_pair(0, 1);
        assert_eq!(mixed.rate_of_pair(0, to), alone, "MCS {mcs}");
        assert_eq!(mixed.rate_of_pair(to, 0), alone, "MCS {mcs}");
    }
    assert!(mixed.rate_of_pair(0, 1).0 > 5 * mixed.rate_of_pair(0, 2).0);
}
