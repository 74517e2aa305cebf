//! Losses of selected frames.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::model::{Frame, FrameLoss, LossModel};
use crate::air::script::Script;

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
    type Process = ScriptedLoss;

    fn process(&self, _seed: u64, _name: &str) -> Result<ScriptedLoss, String> {
        let mut script = Script::default();
        for text in &self.data {
            script.name_segment(text, ())?;
        }
        for number in &self.acks {
            script.name_ack(*number, ())?;
        }
        Ok(ScriptedLoss { script, damaged: self.damaged })
    }

    fn check_for_flow(&self) -> Result<(), String> {
        if self.damaged {
            return Err("damaged = true is for links: here what is hit is lost".into());
        }
        Ok(())
    }
}

/// Selected frames are lost, once each.
#[derive(Clone, Debug)]
pub struct ScriptedLoss {
    script: Script<()>,
    damaged: bool,
}

impl FrameLoss for ScriptedLoss {
    fn lost(&mut self, frame: &Frame) -> bool {
        self.script.next(frame.segment, frame.mss).is_some()
    }

    fn header_intact(&self, _header: u32) -> bool {
        self.damaged
    }

    fn is_random(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{SEGMENT, fault, frame, is_random};
    use super::*;
    use lasthop_core::segment::{Flags, Segment};
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
        assert_eq!(fault(scripted(&["3:1", "3:1"], &[])), "\"3:1\" is named twice");
        assert_eq!(fault(scripted(&[], &[2, 2])), "ack 2 is named twice");
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
