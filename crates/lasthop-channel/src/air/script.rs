//! Frames that a scenario names: the transmissions of a segment, and ACK packets by their number.
//! For scenarios with a single flow.

use super::config::ScriptedDelay;
use lasthop_core::segment::{Flags, Segment};
use lasthop_core::units::{Duration, Quantity};

/// What is to happen to named frames: a `T` for each.
#[derive(Clone, Debug)]
pub struct Script<T> {
    /// Ordered by segment.
    data: Vec<NamedSegment<T>>,
    /// By ordinal on this link.
    acks: Vec<(u64, T)>,
    acks_seen: u64,
}

/// Transmissions of a segment.
#[derive(Clone, Debug)]
struct NamedSegment<T> {
    /// Segments count from 1; 0 is the SYN.
    number: u64,
    /// How often it has crossed this link so far.
    crossings: u64,
    named: Vec<(u64, T)>,
}

impl<T> Default for Script<T> {
    fn default() -> Self {
        Script { data: Vec::new(), acks: Vec::new(), acks_seen: 0 }
    }
}

impl<T> Script<T> {
    /// Names a transmission of a segment: "14:2" is the second time that segment 14 crosses this
    /// link (segments count from 1, the SYN is 0).
    ///
    /// # Errors
    ///
    /// If the text does not have that form, or the transmission has been named before.
    pub fn name_segment(&mut self, text: &str, value: T) -> Result<(), String> {
        let (number, crossing) = parse(text).ok_or_else(|| {
            format!(
                "expected \"segment:transmission\" such as \"14:2\", both whole numbers and the \
                 second from 1, found {text:?}"
            )
        })?;
        let at = match self.data.binary_search_by_key(&number, |d| d.number) {
            Ok(at) => at,
            Err(at) => {
                self.data.insert(at, NamedSegment { number, crossings: 0, named: Vec::new() });
                at
            }
        };
        let named = &mut self.data[at].named;
        if named.iter().any(|n| n.0 == crossing) {
            return Err(format!("{text:?} is named twice"));
        }
        named.push((crossing, value));
        Ok(())
    }

    /// Names an ACK packet by its number on this link; number 1 acknowledges the SYN.
    ///
    /// # Errors
    ///
    /// If the number is 0 or has been named before.
    pub fn name_ack(&mut self, number: u64, value: T) -> Result<(), String> {
        if number == 0 {
            return Err("acks are counted from 1 (the ACK that answers the SYN), found 0".into());
        }
        if self.acks.iter().any(|a| a.0 == number) {
            return Err(format!("ack {number} is named twice"));
        }
        self.acks.push((number, value));
        Ok(())
    }

    /// True if no frame is named.
    pub fn is_empty(&self) -> bool {
        self.data.is_empty() && self.acks.is_empty()
    }

    /// What is to happen to this frame, if it is named; `mss` is the payload of a full segment.
    /// Call it once for each frame, in order of start.
    pub fn next(&mut self, segment: &Segment, mss: u32) -> Option<&T> {
        let flags = segment.flags;
        if flags.has(Flags::DATAGRAM) {
            return None;
        }
        // Also the SYN-ACK of a data sender whose receiver opens the connection.
        let is_syn = flags.has(Flags::SYN) && (segment.forward || !flags.has(Flags::ACK));
        if segment.len > 0 || is_syn {
            let number =
                if flags.has(Flags::SYN) { 0 } else { segment.seq / u64::from(mss.max(1)) + 1 };
            let at = self.data.binary_search_by_key(&number, |d| d.number).ok()?;
            let NamedSegment { crossings, named, .. } = &mut self.data[at];
            *crossings += 1;
            return named.iter().find(|n| n.0 == *crossings).map(|n| &n.1);
        }
        let is_ack = !segment.forward
            && flags.has(Flags::ACK)
            && !flags.has(Flags::FIN)
            && !flags.has(Flags::RST);
        if !is_ack {
            return None;
        }
        self.acks_seen += 1;
        self.acks.iter().find(|a| a.0 == self.acks_seen).map(|a| &a.1)
    }
}

impl Script<Duration> {
    /// The frames that a script delays, and by how much.
    ///
    /// # Errors
    ///
    /// If a line does not have its form or names a frame again.
    pub fn of_delays(config: &ScriptedDelay) -> Result<Script<Duration>, String> {
        let mut script = Script::default();
        for text in &config.data {
            let (name, extra) = split(text, "segment:transmission + time", "25:1 + 50 ms")?;
            script.name_segment(name, extra)?;
        }
        for text in &config.acks {
            let form = ("ACK packet + time", "4 + 50 ms");
            let (name, extra) = split(text, form.0, form.1)?;
            let number = name.parse().map_err(|_| malformed(text, form.0, form.1))?;
            script.name_ack(number, extra)?;
        }
        Ok(script)
    }
}

/// The name of a frame and the time, of a line in this `form`.
fn split<'a>(text: &'a str, form: &str, example: &str) -> Result<(&'a str, Duration), String> {
    let (name, time) = text.split_once('+').ok_or_else(|| malformed(text, form, example))?;
    Ok((name.trim(), Duration::parse(time.trim()).map_err(|e| format!("{text:?}: {e}"))?))
}

fn malformed(text: &str, form: &str, example: &str) -> String {
    format!("expected \"{form}\" such as \"{example}\", found {text:?}")
}

fn parse(text: &str) -> Option<(u64, u64)> {
    let (segment, crossing) = text.split_once(':')?;
    let crossing = crossing.trim().parse().ok()?;
    Some((segment.trim().parse().ok()?, crossing)).filter(|_| crossing > 0)
}

#[cfg(test)]
mod tests {
    use super::super::config::DelayConfig;
    use super::super::delay::DelayProcess;
    use super::super::loss::Frame;
    use super::super::loss::testing::{SEGMENT, frame};
    use super::*;
    use lasthop_core::units::Time;

    const MS: u64 = 1_000_000;

    fn scripted(data: &[&str], acks: &[&str]) -> DelayConfig {
        let texts = |texts: &[&str]| texts.iter().map(|text| text.to_string()).collect();
        DelayConfig {
            scripted: Some(ScriptedDelay { data: texts(data), acks: texts(acks) }),
            ..DelayConfig::constant(Duration::millis(10))
        }
    }

    fn process(config: &DelayConfig) -> DelayProcess {
        DelayProcess::new(config, 1, "test").unwrap()
    }

    /// The second copy of segment 2 is overtaken by the three behind it, and the second ACK by the
    /// third one.
    #[test]
    fn named_frames_are_delayed() {
        let mut delay = process(&scripted(&["2:2 + 3.5 ms"], &["2+2ms"]));
        assert!(delay.may_reorder() && !delay.is_random());
        let data = |number: u64| Segment { seq: (number - 1) * 1000, ..SEGMENT };
        let ack = Segment { len: 0, forward: false, ..SEGMENT };
        let sent = [data(1), data(2), data(2), data(3), data(2), ack, ack, ack];
        let arrivals = sent.iter().zip(0..).map(|(segment, i)| {
            let frame = Frame { segment, ..frame(Time(i * MS), i, 1040) };
            delay.arrival(&frame, Time((i + 1) * MS)).0 / (MS / 10)
        });
        assert_eq!(arrivals.collect::<Vec<_>>(), [110, 120, 165, 140, 150, 160, 190, 180]);
        let nobody = process(&scripted(&[], &[]));
        assert_eq!(nobody.constant(), Some(Duration::millis(10)));
    }

    #[test]
    fn mistakes_in_scripts_are_errors() {
        let error = |config: DelayConfig| DelayProcess::new(&config, 1, "test").unwrap_err();
        for text in ["", "25:1", "25:1 50 ms", "50 ms + 25:1", "25:0 + 1 ms", "25 + 1 ms"] {
            let found = error(scripted(&[text], &[]));
            assert!(found.contains(&format!("{text:?}")) || found.contains("14:2"), "{found}");
        }
        assert!(error(scripted(&["25:1 + 50"], &[])).contains("25:1 + 50"));
        for text in ["4", "4:1 + 1 ms", "0 + 1 ms"] {
            let found = error(scripted(&[], &[text]));
            assert!(found.contains(&format!("{text:?}")) || found.contains("from 1"), "{found}");
        }
        assert_eq!(error(scripted(&["3:1 + 1 ms", "3:1 + 2 ms"], &[])), "\"3:1\" is named twice");
    }
}
