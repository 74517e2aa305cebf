//! Losses of selected frames.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::model::{Frame, FrameLoss, LossModel};
use lasthop_core::segment::Flags;

/// Selected frames are lost, once each.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Scripted {
    /// "segment:transmission", e.g. "14:2" = the second transmission of segment 14 on this link
    /// (segments count from 1, the SYN is 0).
    #[serde(default)]
    pub data: Vec<String>,
    /// ACK packets by ordinal on this link; number 1 acknowledges the SYN.
    #[serde(default)]
    pub acks: Vec<u64>,
    /// They arrive damaged, with intact headers; otherwise nothing arrives.
    #[serde(default)]
    pub damaged: bool,
}

impl LossModel for Scripted {
    type Process = Script;

    fn process(&self, _seed: u64, _name: &str) -> Result<Script, String> {
        let acks = self.acks.clone();
        let mut script = Script { data: vec![], acks, acks_seen: 0, damaged: self.damaged };
        for text in &self.data {
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
        if script.acks.contains(&0) {
            return Err("acks are counted from 1 (the ACK that answers the SYN), found 0".into());
        }
        Ok(script)
    }

    fn check_for_flow(&self) -> Result<(), String> {
        if self.damaged {
            return Err("damaged = true is for links: here what is hit is lost".into());
        }
        Ok(())
    }
}

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

impl FrameLoss for Script {
    fn lost(&mut self, frame: &Frame) -> bool {
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

    fn header_intact(&self, _header: u32) -> bool {
        self.damaged
    }

    fn is_random(&self) -> bool {
        false
    }
}

fn parse_script(text: &str) -> Option<(u64, u64)> {
    let (segment, crossing) = text.split_once(':')?;
    let crossing = crossing.trim().parse().ok()?;
    Some((segment.trim().parse().ok()?, crossing)).filter(|_| crossing > 0)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{SEGMENT, fault, frame, is_random};
    use super::*;
    use lasthop_core::segment::Segment;
    use lasthop_core::units::Time;

    fn scripted(data: &[&str], acks: &[u64]) -> Scripted {
        let data = data.iter().map(|text| text.to_string()).collect();
        Scripted { data, acks: acks.to_vec(), damaged: false }
    }

    #[test]
    fn named_frames_are_lost() {
        let mut process = scripted(&["14:2", "0:1", "14: 3"], &[1, 4]).process(1, "test").unwrap();
        let mut lost = |segment: Segment| {
            process.lost(&Frame { segment: &segment, ..frame(Time::ZERO, 0, 1040) })
        };
        let data = |number: u64| Segment { seq: (number - 1) * 1000, ..SEGMENT };
        let syn = Segment { len: 0, flags: Flags::SYN, ..SEGMENT };
        let answer =
            Segment { len: 0, flags: Flags::SYN.with(Flags::ACK), forward: false, ..SEGMENT };
        let ack = Segment { len: 0, forward: false, ..SEGMENT };
        let datagram = Segment { flags: Flags::DATAGRAM, ..data(14) };
        assert!(lost(syn) && !lost(syn));
        assert!(
            !lost(datagram)
                && !lost(data(13))
                && !lost(data(14))
                && lost(data(14))
                && lost(data(14))
                && !lost(data(14))
        );
        assert!(
            !lost(Segment { len: 0, ..SEGMENT }),
            "a bare ACK of the data sender is not counted"
        );
        assert!(lost(answer) && !lost(ack) && !lost(ack) && lost(ack) && !lost(ack));
    }

    #[test]
    fn mistakes_are_errors() {
        for text in ["", "14", "14:0", "14:-1", "a:b", "1:2:3", "1.5:1", "99999999999999999999:1"] {
            let error = fault(scripted(&[text], &[]));
            assert!(error.contains("\"14:2\"") && error.contains(&format!("{text:?}")), "{error}");
        }
        assert!(fault(scripted(&[], &[0])).contains("counted from 1"));
    }

    #[test]
    fn only_links_deliver_damaged_frames() {
        let damaged = Scripted { damaged: true, ..scripted(&["1:1"], &[]) };
        assert!(
            damaged.check_for_flow().is_err() && scripted(&["1:1"], &[]).check_for_flow().is_ok()
        );
        assert!(!is_random(damaged));
    }
}
