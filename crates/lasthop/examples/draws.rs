//! Writes the 64-bit draws of one order of addressing to stdout, without end, for test batteries
//! that read raw bits: `cargo run --release -p lasthop --example draws ORDER | dieharder -g 200
//! -a`. `tools/random_quality.py` does that.

use std::io::{Write, stdout};

use lasthop::random::Stream;

/// Processes of a path, its cell and its traffic, named as the models name them.
const PROCESSES: [&str; 10] = [
    "loss bs>mh",
    "loss mh>bs",
    "loss in state bs>mh",
    "state bs>mh",
    "delay bs>mh",
    "delay mh>bs",
    "traffic flow 1",
    "traffic flow 2",
    "backoff wlan bs",
    "red bs>mh",
];
/// The step between frames of one slot (`air/draws.rs`).
const SECOND_OF_SLOT: u64 = 0x9e37_79b9_7f4a_7c15;

/// Draw number `k` in this order.
type Order = Box<dyn Fn(u64) -> u64>;

fn order(name: &str) -> Option<Order> {
    let one = Stream::new(1, "loss bs>mh");
    Some(match name {
        "indices" => Box::new(move |k| one.bits(k)),
        "indices, bits reversed" => Box::new(move |k| one.bits(k).reverse_bits()),
        "high halves" => Box::new(move |k| halves(one.bits(2 * k), one.bits(2 * k + 1), 32)),
        "low halves" => Box::new(move |k| halves(one.bits(2 * k), one.bits(2 * k + 1), 0)),
        "seeds" => Box::new(|k| Stream::new(k, "loss bs>mh").bits(0)),
        "names" => Box::new(|k| Stream::new(1, &format!("loss bs>{k}")).bits(0)),
        "interleaved" => interleaved(),
        "slots" => Box::new(move |k| one.bits(slot_index(k))),
        "strides" => Box::new(move |k| one.bits(k << 24)),
        "stations" => stations(),
        "normal" => Box::new(move |k| {
            halves(percentile(one.normal(2 * k)), percentile(one.normal(2 * k + 1)), 0)
        }),
        _ => return None,
    })
}

/// 32 bits of each of two draws, from bit `shift` on.
fn halves(a: u64, b: u64, shift: u32) -> u64 {
    u64::from((a >> shift) as u32) | u64::from((b >> shift) as u32) << 32
}

/// Every process under 16 neighbouring seeds at one index, then at the next index.
fn interleaved() -> Order {
    let streams: Vec<Stream> =
        (1..=16).flat_map(|seed| PROCESSES.map(|p| Stream::new(seed, p))).collect();
    round_robin(streams)
}

/// The back-off draws of 50 stations of a cell.
fn stations() -> Order {
    round_robin((0..50).map(|i| Stream::new(1, &format!("backoff wlan s{i}"))).collect())
}

fn round_robin(streams: Vec<Stream>) -> Order {
    let n = streams.len() as u64;
    Box::new(move |k| streams[(k % n) as usize].bits(k / n))
}

/// Three frames in each seventh slot.
fn slot_index(k: u64) -> u64 {
    (7 * (k / 3)).wrapping_add((k % 3).wrapping_mul(SECOND_OF_SLOT)) & (u64::MAX >> 1)
}

/// The distribution function of the standard normal at `z`, as a 32-bit fraction.
fn percentile(z: f64) -> u64 {
    (0.5 * libm::erfc(-z * std::f64::consts::FRAC_1_SQRT_2) * 4_294_967_296.0) as u32 as u64
}

fn main() {
    let name = std::env::args().nth(1).unwrap_or_default();
    let Some(draw) = order(&name) else {
        eprintln!("unknown order `{name}`; the orders are listed in `order()` of this example");
        std::process::exit(2);
    };
    let mut out = stdout().lock();
    let mut buffer = Vec::with_capacity(1 << 16);
    for block in 0u64.. {
        buffer.clear();
        for k in 0..8192 {
            buffer.extend_from_slice(&draw(8192 * block + k).to_le_bytes());
        }
        // The reader has had enough.
        if out.write_all(&buffer).is_err() {
            return;
        }
    }
}
