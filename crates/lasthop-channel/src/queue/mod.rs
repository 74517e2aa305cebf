//! Queue disciplines: which frame of a link's queue is sent next, and which are marked or dropped.
//!
//! The frame being sent is not in the queue: with a limit of N, N frames wait behind it. A queue
//! stores handles and the fields that disciplines use. The host stores the segments and executes
//! the outcomes.
//!
//! Marking follows RFC 3168: a frame of an ECN-capable transport gets `Flags::CE`. RED, CoDel,
//! FQ-CoDel, PIE and DualPI2 drop frames that are not ECN-capable instead. Step marking and
//! Jersey's congestion warning only mark: other frames pass, and drops occur only when the queue is
//! full.
//!
//! A discipline is one file: its settings, which implement [`QueueSettings`], the queue, which
//! implements [`QueueDiscipline`], its reasons for drops and marks, and tests. The list below names
//! the files; from it the modules, [`Discipline`], [`AnyQueue`], the checks, [`drop_reason`] and
//! the rules of the verifier are made.

#[macro_use]
mod disciplines;
mod ack_filter;
mod average;
mod cobalt;
mod discipline;
mod drop_tail;
mod fifo;
mod isolation;
#[cfg(test)]
mod testing;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};

use crate::sample::Sample;
use fifo::{number, same_unit, text};
use lasthop_core::segment::Flags;
use lasthop_core::units::{QueueLimit, Time};

pub use ack_filter::AckFilter;
pub use discipline::{
    Fault, ForeignQueue, Frame, Headers, LinkFacts, Load, MakeQueue, Outcome, QueueDiscipline,
    QueueSettings, Queued,
};
pub use drop_tail::DropTail;
pub use isolation::Isolation;

// The disciplines beside DropTail, in the order of the schema.
disciplines! {
    red,
    step_marking,
    codel,
    fq_codel,
    cw_marking,
    two_priority,
    drop_head,
    pie,
    dualpi2,
    cake,
}

/// A queue: its limit and its discipline.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QueueConfig {
    /// Queue limit, excluding the frame being sent; `None` is unlimited.
    pub limit: Option<QueueLimit>,
    /// Queue discipline.
    pub discipline: Discipline,
}

/// As a scenario file writes it: "49 packets", "unlimited", or a table.
impl Serialize for QueueConfig {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        if self.is_drop_tail() {
            return match self.limit {
                None => s.serialize_str("unlimited"),
                Some(limit) => limit.serialize(s),
            };
        }
        let mut table = self.discipline.settings().map_err(serde::ser::Error::custom)?;
        match self.limit {
            Some(QueueLimit::Packets(n)) => drop(table.insert("packets".into(), n.into())),
            Some(QueueLimit::Bytes(n)) => drop(table.insert("bytes".into(), n.into())),
            None => {}
        }
        table.serialize(s)
    }
}

impl QueueConfig {
    /// DropTail with a limit.
    pub fn drop_tail(limit: QueueLimit) -> QueueConfig {
        QueueConfig { limit: Some(limit), discipline: Discipline::Droptail }
    }

    /// DropTail that never drops.
    pub const UNLIMITED: QueueConfig =
        QueueConfig { limit: None, discipline: Discipline::Droptail };

    /// True for DropTail, where the fate of a frame is known when it arrives.
    pub fn is_drop_tail(&self) -> bool {
        self.discipline == Discipline::Droptail
    }

    /// True if the discipline uses random draws.
    pub fn is_random(&self) -> bool {
        self.discipline.is_random()
    }

    /// True if the discipline may read the source of a frame.
    pub fn reads_source(&self) -> bool {
        self.discipline.reads_source()
    }

    /// Fills in the default limit, and thresholds that derive from the limit.
    pub fn filled(mut self) -> QueueConfig {
        let limit = self.limit.or(self.discipline.default_limit());
        self.discipline.fill(limit);
        QueueConfig { limit, ..self }
    }

    /// Checks the settings for consistency.
    ///
    /// # Errors
    ///
    /// The key and a message that states what is allowed.
    pub fn check(&self) -> Result<(), Fault> {
        let key = if let Some(QueueLimit::Bytes(_)) = self.limit { "bytes" } else { "packets" };
        match self.limit {
            Some(QueueLimit::Bytes(0)) => {
                let text = "a queue of 0 B can hold no frame; write \"0 packets\" for a link \
                            without a queue";
                return Err((key, text.into()));
            }
            Some(QueueLimit::Packets(0)) if !self.is_drop_tail() => {
                let text = "a queue of 0 packets must be DropTail; other disciplines need at \
                            least 1 packet";
                return Err((key, text.into()));
            }
            _ => {}
        }
        self.discipline.check()?;
        match (self.limit, self.discipline.threshold()) {
            (Some(limit), Some((key, threshold)))
                if same_unit(limit, threshold) && number(threshold) >= number(limit) =>
            {
                Err((
                    key,
                    format!(
                        "must be below the queue limit of {}, found {}",
                        text(limit),
                        text(threshold)
                    ),
                ))
            }
            _ => Ok(()),
        }
    }

    /// Constructs an empty queue for a link.
    pub fn build(&self, link: &LinkFacts<'_>) -> AnyQueue {
        let QueueConfig { limit, discipline } = self.clone().filled();
        discipline.build(limit, link)
    }
}

#[cfg(test)]
mod tests {
    use super::codel::Codel;
    use super::cw_marking::CwMarking;
    use super::red::Red;
    use super::step_marking::StepMarking;
    use super::*;
    use crate::sample::Sample;

    fn config(limit: u64, discipline: Discipline) -> QueueConfig {
        QueueConfig { limit: Some(QueueLimit::Packets(limit)), discipline }
    }

    #[test]
    fn defaults_derive_from_the_limit() {
        let cw = config(51, Discipline::CwMarking(CwMarking::default())).filled();
        assert_eq!(cw.discipline.threshold(), Some(("threshold", QueueLimit::Packets(25))));
        let step = Discipline::StepMarking(StepMarking { threshold: Some(QueueLimit::Packets(7)) });
        assert_eq!(config(50, step.clone()).filled(), config(50, step));
        let codel = QueueConfig { limit: None, discipline: Discipline::Codel(Codel::default()) };
        assert_eq!(codel.filled().limit, Some(QueueLimit::Packets(1000)));
        assert_eq!(QueueConfig::UNLIMITED.filled(), QueueConfig::UNLIMITED);
    }

    #[test]
    fn threshold_must_be_below_the_limit() {
        let step =
            |n| Discipline::StepMarking(StepMarking { threshold: Some(QueueLimit::Packets(n)) });
        assert!(config(10, step(9)).check().is_ok());
        assert_eq!(config(10, step(10)).check().map_err(|e| e.0), Err("threshold"));
        assert_eq!(
            config(5, Discipline::Red(Red::default())).check().map_err(|e| e.0),
            Err("min_th")
        );
        assert!(config(6, Discipline::Red(Red::default())).check().is_ok());
        let bytes =
            Discipline::StepMarking(StepMarking { threshold: Some(QueueLimit::Bytes(20_000)) });
        assert!(config(10, bytes).check().is_ok());
    }

    #[test]
    fn samples_pass_the_checks() {
        for i in 0..200_u32 {
            let numbers: Vec<f64> =
                (1..9).map(|k| f64::from(i * k % 17) / 16.0).chain([0.3, 0.7]).collect();
            for discipline in Discipline::samples(&Sample::new(&numbers, 1.0)) {
                assert_eq!(discipline.check(), Ok(()), "{discipline:?}");
            }
        }
    }
}
