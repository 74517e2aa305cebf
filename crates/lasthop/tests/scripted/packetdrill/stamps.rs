//! The timestamps of a script, in the kernel's milliseconds, and those of lasthop, in microseconds.

use std::collections::HashMap;

/// Microseconds of a tick.
const TICK: u32 = 1000;

/// Which timestamp of the script stands for which one of lasthop.
#[derive(Clone, Debug, Default)]
pub struct Stamps {
    /// The script says that the clock ticks in milliseconds, so that values are compared.
    pub ticks: bool,
    /// The first value sent, in the script and by lasthop.
    first: Option<(u32, u32)>,
    /// By the value in the script, that of lasthop.
    sent: HashMap<u32, u32>,
}

impl Stamps {
    /// Those of a script, by its options.
    pub fn of(text: &str) -> Stamps {
        Stamps { ticks: text.contains("--tcp_ts_tick_usecs=1000"), ..Stamps::default() }
    }

    /// The value of a packet that arrives.
    pub fn arrives(value: u32) -> u32 {
        value.wrapping_mul(TICK)
    }

    /// What such a packet echoes; `now` if nothing was sent with that value.
    pub fn echo(&self, value: u32, now: u32) -> u32 {
        self.sent.get(&value).copied().unwrap_or(now)
    }

    /// A packet was sent with the value `sent` and the echo `echo`; the script expects `value` and
    /// `echoed`.
    ///
    /// # Errors
    ///
    /// They differ: the values by more than `tolerance` ticks.
    pub fn compare(
        &mut self,
        (value, echoed): (u32, u32),
        (sent, echo): (u32, u32),
        tolerance: u32,
    ) -> Result<(), String> {
        self.sent.insert(value, sent);
        let first = *self.first.get_or_insert((value, sent));
        let expected = f64::from(value.wrapping_sub(first.0));
        let found = f64::from(sent.wrapping_sub(first.1)) / f64::from(TICK);
        if self.ticks && (expected - found).abs() > f64::from(tolerance) {
            return Err(format!("TSval is {}", f64::from(first.0) + found));
        }
        if echoed > 0 && echo != Stamps::arrives(echoed) {
            return Err(format!("TSecr is {}", f64::from(echo) / f64::from(TICK)));
        }
        Ok(())
    }
}

#[test]
fn values_are_compared_by_ticks_and_echoes_exactly() {
    let mut s = Stamps::of("--tcp_ts_tick_usecs=1000\n");
    assert_eq!(s.compare((100, 0), (50_000, 0), 4), Ok(()));
    assert_eq!(s.compare((150, 7), (98_000, 7000), 4), Ok(()));
    assert_eq!(s.echo(150, 0), 98_000);
    assert_eq!(s.compare((200, 7), (98_000, 7000), 4), Err("TSval is 148".into()));
    assert_eq!(s.compare((150, 8), (98_000, 7000), 4), Err("TSecr is 7".into()));
    let mut any = Stamps::of("");
    assert_eq!(any.compare((100, 0), (1, 0), 4), Ok(()));
    assert_eq!(any.compare((900, 0), (2, 0), 4), Ok(()));
}
