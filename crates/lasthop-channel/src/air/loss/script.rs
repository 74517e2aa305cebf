//! Losses of selected frames.

use super::Frame;
use lasthop_core::segment::Flags;

/// Selected frames are lost, once each. Meant for scenarios with a single flow.
#[derive(Clone, Debug)]
pub struct Script {
    /// Segment number, number of transmissions so far, transmissions that are lost; ordered by
    /// number.
    data: Vec<(u64, u64, Vec<u64>)>,
    acks: Vec<u64>,
    acks_seen: u64,
    damaged: bool,
}

impl Script {
    pub(super) fn new(data: &[String], acks: &[u64], damaged: bool) -> Result<Script, String> {
        let mut script = Script { data: vec![], acks: acks.to_vec(), acks_seen: 0, damaged };
        for text in data {
            let (segment, crossing) = parse_script(text).ok_or_else(|| {
                format!(
                    "expected \"segment:transmission\" such as \"14:2\", both whole numbers and \
                     the second from 1, found {text:?}"
                )
            })?;
            match script.data.binary_search_by_key(&segment, |d| d.0) {
                Ok(i) => script.data[i].2.push(crossing),
                Err(i) => script.data.insert(i, (segment, 0, vec![crossing])),
            }
        }
        if acks.contains(&0) {
            return Err("acks are counted from 1 (the ACK that answers the SYN), found 0".into());
        }
        Ok(script)
    }

    /// Lost frames arrive damaged, with intact headers.
    pub(super) fn damaged(&self) -> bool {
        self.damaged
    }

    pub(super) fn lost(&mut self, frame: &Frame) -> bool {
        let segment = frame.segment;
        let flags = segment.flags;
        if flags.has(Flags::DATAGRAM) {
            return false;
        }
        let is_syn = flags.has(Flags::SYN) && !flags.has(Flags::ACK);
        if segment.len > 0 || is_syn {
            let number = if flags.has(Flags::SYN) {
                0
            } else {
                segment.seq / u64::from(frame.mss.max(1)) + 1
            };
            let Ok(i) = self.data.binary_search_by_key(&number, |d| d.0) else { return false };
            let (_, crossings, lost) = &mut self.data[i];
            *crossings += 1;
            return lost.contains(crossings);
        }
        if segment.forward
            || !flags.has(Flags::ACK)
            || flags.has(Flags::FIN)
            || flags.has(Flags::RST)
        {
            return false;
        }
        self.acks_seen += 1;
        self.acks.contains(&self.acks_seen)
    }
}

fn parse_script(text: &str) -> Option<(u64, u64)> {
    let (segment, crossing) = text.split_once(':')?;
    let crossing = crossing.trim().parse().ok()?;
    Some((segment.trim().parse().ok()?, crossing)).filter(|_| crossing > 0)
}
