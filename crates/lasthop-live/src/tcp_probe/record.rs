//! The records of the tracepoint, as bytes.

/// `PERF_RECORD_LOST` and `PERF_RECORD_SAMPLE` of linux/perf_event.h.
const LOST: u32 = 2;
const SAMPLE: u32 = 9;

/// The state of a sender when a segment arrives, before that segment is processed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Time of the kernel's trace clock, ns.
    pub time_ns: u64,
    /// The connection (SO_COOKIE).
    pub cookie: u64,
    /// First sequence number that is not acknowledged.
    pub snd_una: u32,
    /// Congestion window, segments.
    pub cwnd: u32,
}

/// Where the fields are in what the tracepoint records, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    cookie: usize,
    snd_una: usize,
    cwnd: usize,
}

impl Layout {
    /// Reads the file `format` of the tracepoint; `None` if a field is missing or of another size.
    pub fn parse(format: &str) -> Option<Layout> {
        let field = |name: &str, size: &str| {
            let line = format.lines().find(|line| {
                let declared = line.split(';').next().unwrap_or_default();
                declared.trim().starts_with("field:") && declared.ends_with(&format!(" {name}"))
            })?;
            let value = |key| line.split(';').find_map(|part| part.trim().strip_prefix(key));
            (value("size:") == Some(size)).then(|| value("offset:")?.parse().ok()).flatten()
        };
        Some(Layout {
            cookie: field("sock_cookie", "8")?,
            snd_una: field("snd_una", "4")?,
            cwnd: field("snd_cwnd", "4")?,
        })
    }
}

/// Appends the samples of a buffer of perf records; returns the number of records that the kernel
/// has dropped. A sample consists of time, length and what the tracepoint recorded.
pub fn read_records(mut bytes: &[u8], layout: &Layout, samples: &mut Vec<Sample>) -> u64 {
    let mut lost = 0;
    while let Some(length) = u16_at(bytes, 6) {
        let Some((record, rest)) = bytes.split_at_checked(length.into()) else { break };
        match u32_at(record, 0) {
            Some(SAMPLE) => samples.extend(sample(record, layout)),
            Some(LOST) => lost += u64_at(record, 16).unwrap_or_default(),
            Some(_) => {}
            // A length of zero.
            None => break,
        }
        bytes = rest;
    }
    lost
}

fn sample(record: &[u8], layout: &Layout) -> Option<Sample> {
    let length = usize::try_from(u32_at(record, 16)?).ok()?;
    let raw = record.get(20..)?.get(..length)?;
    Some(Sample {
        time_ns: u64_at(record, 8)?,
        cookie: u64_at(raw, layout.cookie)?,
        snd_una: u32_at(raw, layout.snd_una)?,
        cwnd: u32_at(raw, layout.cwnd)?,
    })
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().copied().map(u16::from_ne_bytes)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().copied().map(u32::from_ne_bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().copied().map(u64::from_ne_bytes)
}

#[allow(clippy::indexing_slicing, reason = "a test may panic")]
#[cfg(test)]
mod tests {
    use super::*;

    const FORMAT: &str = "name: tcp_probe\nID: 2273\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n\
        \tfield:__u8 saddr[28];\toffset:8;\tsize:28;\tsigned:0;\n\
        \tfield:__u32 snd_una;\toffset:84;\tsize:4;\tsigned:0;\n\
        \tfield:__u32 snd_cwnd;\toffset:88;\tsize:4;\tsigned:0;\n\
        \tfield:__u64 sock_cookie;\toffset:112;\tsize:8;\tsigned:0;\n\n\
        print fmt: \"snd_una=%#x snd_cwnd=%u\", REC->snd_una, REC->snd_cwnd\n";
    const LAYOUT: Layout = Layout { cookie: 112, snd_una: 84, cwnd: 88 };

    /// A record of perf with its header.
    fn record(kind: u32, body: &[u8]) -> Vec<u8> {
        let length = u16::try_from(8 + body.len()).expect("short").to_ne_bytes();
        [&kind.to_ne_bytes(), &[0, 0][..], &length, body].concat()
    }

    /// The body of a sample, as the kernel pads it.
    fn body(sample: &Sample) -> Vec<u8> {
        let mut raw = vec![0xee; 140];
        raw[84..88].copy_from_slice(&sample.snd_una.to_ne_bytes());
        raw[88..92].copy_from_slice(&sample.cwnd.to_ne_bytes());
        raw[112..120].copy_from_slice(&sample.cookie.to_ne_bytes());
        [&sample.time_ns.to_ne_bytes(), &140_u32.to_ne_bytes()[..], &raw].concat()
    }

    #[test]
    fn the_layout_is_that_of_the_format_file() {
        assert_eq!(Layout::parse(FORMAT), Some(LAYOUT));
        for broken in ["snd_una", "snd_cwnd", "sock_cookie"] {
            assert_eq!(Layout::parse(&FORMAT.replace(broken, "other")), None);
        }
        assert_eq!(Layout::parse(&FORMAT.replace("size:8", "size:4")), None);
    }

    #[test]
    fn records_become_samples() {
        let one = Sample { time_ns: 5, cookie: 7 << 40, snd_una: u32::MAX, cwnd: 10 };
        let two = Sample { time_ns: 9, cookie: 8, snd_una: 3, cwnd: 11 };
        let dropped = [&1_u64.to_ne_bytes()[..], &17_u64.to_ne_bytes()].concat();
        let bytes = [
            record(SAMPLE, &body(&one)),
            record(LOST, &dropped),
            // PERF_RECORD_THROTTLE.
            record(5, &[0; 24]),
            record(SAMPLE, &body(&two)),
        ]
        .concat();
        let mut samples = Vec::new();
        assert_eq!(read_records(&bytes, &LAYOUT, &mut samples), 17);
        assert_eq!(samples, [one, two]);
    }

    #[test]
    fn damaged_records_give_no_samples() {
        let whole = Sample { time_ns: 5, cookie: 7, snd_una: 1, cwnd: 10 };
        let bytes = record(SAMPLE, &body(&whole));
        for length in 0..bytes.len() {
            let mut samples = Vec::new();
            // Cut off, and cut off with a length that says so.
            assert_eq!(read_records(&bytes[..length], &LAYOUT, &mut samples), 0);
            let cut = record(SAMPLE, &bytes[8.min(length)..length]);
            assert_eq!(read_records(&cut, &LAYOUT, &mut samples), 0);
            assert_eq!(samples, []);
        }
        assert_eq!(read_records(&[0; 64], &LAYOUT, &mut Vec::new()), 0);
    }
}
