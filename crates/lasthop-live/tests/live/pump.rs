//! The packets that a pump counts as dropped by this machine, with devices in memory.

use std::io::{self, Read};
use std::os::fd::BorrowedFd;
use std::path::Path;

use lasthop::scenario::{Files, Overrides, load};
use lasthop::units::Time;
use lasthop_live::chain::Chain;
use lasthop_live::device::memory::Memory;
use lasthop_live::device::{Device, Sent};
use lasthop_live::pump::{OwnDrops, Pump};
use lasthop_wire::datagram::Datagram;

struct NoFiles;

impl Files for NoFiles {
    fn open(&self, _: &Path) -> io::Result<Box<dyn Read>> {
        Err(io::ErrorKind::NotFound.into())
    }
}

/// An end of lasthop's own, which notes when packets arrive.
#[derive(Default)]
struct Arrivals(Vec<Time>);

impl Device for Arrivals {
    fn read(&mut self, _: Time) -> io::Result<Option<&[u8]>> {
        Ok(None)
    }

    fn write(&mut self, now: Time, _: &[u8]) -> Sent {
        self.0.push(now);
        std::thread::sleep(std::time::Duration::from_millis(3));
        Sent::Sent
    }

    fn is_own(&self) -> bool {
        true
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

/// However late packets are written, an end of lasthop's own sees the times of the link.
#[test]
fn packets_reach_an_own_end_when_they_are_due() {
    let text = "[last_hop]\nrate = '1 Mbps'\nrtt = '2 ms'\n";
    let network = load(text, None, &Overrides::default(), &NoFiles).expect("a scenario").network;
    let chain = Chain::new(&network, None, 1).expect("a chain");
    let (source, destination) = ("100.64.0.1:9".parse(), "100.64.0.2:9".parse());
    let (source, destination) = (source.expect("an address"), destination.expect("an address"));
    let packet = Datagram { source, destination, payload: &[0; 97] }.packet();
    let server = Arrivals::default();
    let mobile = Memory { incoming: vec![packet; 10].into(), ..Memory::default() };
    let mut pump = Pump::new(chain, server, mobile, ());
    pump.run(|counters| Ok(counters.written == 10)).expect("devices without errors");
    let (_, server, ()) = pump.into_parts();
    let apart: Vec<u64> = server.0.windows(2).map(|pair| pair[1].0 - pair[0].0).collect();
    // 125 bytes.
    assert_eq!(apart, [1_000_000; 9]);
}

#[test]
fn drops_of_the_devices_are_no_drops_of_the_link() {
    let text = "[last_hop]\nrate = '10 Gbps'\nrtt = '2 us'\n";
    let network = load(text, None, &Overrides::default(), &NoFiles).expect("a scenario").network;
    let chain = Chain::new(&network, None, 1).expect("a chain");
    let (source, destination) = ("100.64.0.1:9".parse(), "100.64.0.2:9".parse());
    let (source, destination) = (source.expect("an address"), destination.expect("an address"));
    let packet = Datagram { source, destination, payload: b"data" }.packet();
    let server = Memory { incoming: vec![packet; 10].into(), missed: 4, ..Memory::default() };
    let mobile = Memory { room: Some(7), missed: 1, ..Memory::default() };
    let mut pump = Pump::new(chain, server, mobile, ());
    pump.run(|counters| Ok(counters.written == 10)).expect("devices without errors");
    let mut drops = pump.counters().own_drops;
    assert_eq!(drops, OwnDrops { not_read: 0, not_taken: 3 });
    drops += pump.drops();
    assert_eq!((drops, drops.total()), (OwnDrops { not_read: 5, not_taken: 3 }, 8));
    assert_eq!(pump.drops(), OwnDrops::default());
    let (chain, ..) = pump.into_parts();
    assert!(chain.hops().all(|hop| (hop.lost, hop.dropped) == (0, 0)));
}
