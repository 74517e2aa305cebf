//! What is made from the list of queue disciplines.

/// From the names of the files: the modules, the enum of settings with its schema, the enum of
/// queues, the checks and the reasons for drops. In the file `fq_codel.rs` the settings are
/// `FqCodel`, which a scenario file selects with `discipline = "fq-codel"`.
macro_rules! disciplines {
    ($($module:ident,)*) => { pastey::paste! {
        $(
            pub mod $module;
            use $module::[<$module:camel>];
        )*

        /// Reasons for drops and marks, as they appear in events.
        pub mod drop_reason {
            pub use super::discipline::{FULL, POLICER};
            $(pub use super::$module::reasons::*;)*
        }

        /// The disciplines, each with its settings.
        #[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
        #[serde(tag = "discipline", rename_all = "kebab-case")]
        #[allow(missing_docs, reason = "the settings document the variants")]
        pub enum Discipline {
            /// First in, first out; frames that do not fit are dropped.
            #[default]
            Droptail,
            $([<$module:camel>]([<$module:camel>]),)*
            /// A discipline defined outside this crate.
            #[serde(skip)]
            Foreign(ForeignQueue),
        }

        $(impl From<[<$module:camel>]> for Discipline {
            fn from(settings: [<$module:camel>]) -> Discipline {
                Discipline::[<$module:camel>](settings)
            }
        })*

        impl Discipline {
            /// The discipline's name and settings, as the table of a scenario file.
            ///
            /// # Errors
            /// A foreign discipline cannot be written.
            pub fn settings(
                &self,
            ) -> serde_json::Result<serde_json::Map<String, serde_json::Value>> {
                serde_json::from_value(serde_json::to_value(self)?)
            }

            /// True if the discipline uses random draws.
            pub fn is_random(&self) -> bool {
                match self {
                    Discipline::Droptail | Discipline::Foreign(_) => false,
                    $(Discipline::[<$module:camel>](_) => {
                        <[<$module:camel>] as QueueSettings>::IS_RANDOM
                    })*
                }
            }

            /// True if the discipline may read the source of a frame.
            fn reads_source(&self) -> bool {
                match self {
                    Discipline::Droptail => false,
                    Discipline::Foreign(_) => true,
                    $(Discipline::[<$module:camel>](_) => {
                        <[<$module:camel>] as QueueSettings>::READS_SOURCE
                    })*
                }
            }

            /// The usual limit of the discipline, if it has one.
            pub fn default_limit(&self) -> Option<QueueLimit> {
                match self {
                    Discipline::Droptail | Discipline::Foreign(_) => None,
                    $(Discipline::[<$module:camel>](_) => {
                        <[<$module:camel>] as QueueSettings>::default_limit()
                    })*
                }
            }

            /// Fills in settings whose defaults derive from the limit.
            fn fill(&mut self, limit: Option<QueueLimit>) {
                match self {
                    Discipline::Droptail | Discipline::Foreign(_) => {}
                    $(Discipline::[<$module:camel>](settings) => settings.fill(limit),)*
                }
            }

            /// Checks the settings for consistency.
            fn check(&self) -> Result<(), Fault> {
                match self {
                    Discipline::Droptail | Discipline::Foreign(_) => Ok(()),
                    $(Discipline::[<$module:camel>](settings) => settings.check(),)*
                }
            }

            /// Key and value of the queue length above which the discipline acts, if it has one.
            fn threshold(&self) -> Option<(&'static str, QueueLimit)> {
                match self {
                    Discipline::Droptail | Discipline::Foreign(_) => None,
                    $(Discipline::[<$module:camel>](settings) => settings.threshold(),)*
                }
            }

            /// Constructs an empty queue for a link; the settings are filled.
            fn build(&self, limit: Option<QueueLimit>, link: &LinkFacts<'_>) -> AnyQueue {
                match self {
                    Discipline::Droptail => AnyQueue::DropTail(DropTail::new(limit)),
                    $(Discipline::[<$module:camel>](settings) => {
                        AnyQueue::[<$module:camel>](settings.build(limit, link))
                    })*
                    Discipline::Foreign(foreign) => AnyQueue::Foreign((foreign.make)(link)),
                }
            }

            /// See [`QueueSettings::lane`].
            pub fn lane(&self, flags: Flags) -> u8 {
                match self {
                    Discipline::Droptail | Discipline::Foreign(_) => 0,
                    $(Discipline::[<$module:camel>](settings) => settings.lane(flags),)*
                }
            }

            /// See [`QueueSettings::may_drop`].
            pub fn may_drop(&self, reason: &str, frame: &Queued) -> bool {
                match self {
                    Discipline::Droptail => true,
                    $(Discipline::[<$module:camel>](settings) => settings.may_drop(reason, frame),)*
                    Discipline::Foreign(_) => true,
                }
            }

            /// See [`QueueSettings::may_mark`].
            pub fn may_mark(&self, reason: &str, frame: &Queued) -> bool {
                match self {
                    Discipline::Droptail => false,
                    $(Discipline::[<$module:camel>](settings) => settings.may_mark(reason, frame),)*
                    Discipline::Foreign(_) => true,
                }
            }

            /// See [`QueueSettings::filters`].
            pub fn filters(&self) -> bool {
                match self {
                    Discipline::Droptail => false,
                    $(Discipline::[<$module:camel>](settings) => settings.filters(),)*
                    Discipline::Foreign(_) => true,
                }
            }

            /// See [`QueueSettings::may_filter`].
            pub fn may_filter(&self, frame: &Queued) -> bool {
                match self {
                    Discipline::Droptail => false,
                    $(Discipline::[<$module:camel>](settings) => settings.may_filter(frame),)*
                    Discipline::Foreign(_) => true,
                }
            }

            /// See [`QueueSettings::may_send`].
            pub fn may_send(&self, frame: &Queued) -> bool {
                match self {
                    Discipline::Droptail => frame.is_first,
                    $(Discipline::[<$module:camel>](settings) => settings.may_send(frame),)*
                    Discipline::Foreign(_) => true,
                }
            }

            /// Every discipline except DropTail once, with random settings made from the same
            /// numbers.
            pub fn samples(sample: &Sample<'_>) -> Vec<Discipline> {
                vec![$([<$module:camel>]::sample(&mut sample.clone()).into(),)*]
            }
        }

        /// Any discipline: an enum of the built-in ones, and a boxed variant for those defined
        /// elsewhere.
        #[allow(missing_docs, reason = "the settings document the variants")]
        pub enum AnyQueue {
            DropTail(DropTail),
            $([<$module:camel>](<[<$module:camel>] as QueueSettings>::Queue),)*
            Foreign(Box<dyn QueueDiscipline>),
        }

        impl AnyQueue {
            #[inline(never)]
            fn filter_other(
                &mut self,
                arriving: &Frame,
                headers: &dyn Headers,
                outcomes: &mut Vec<Outcome>,
            ) {
                match self {
                    AnyQueue::DropTail(_) => {}
                    $(AnyQueue::[<$module:camel>](q) => q.filter(arriving, headers, outcomes),)*
                    AnyQueue::Foreign(q) => q.filter(arriving, headers, outcomes),
                }
            }

            #[inline(never)]
            fn enqueue_other(&mut self, now: Time, frame: Frame, outcomes: &mut Vec<Outcome>) {
                match self {
                    AnyQueue::DropTail(q) => q.enqueue(now, frame, outcomes),
                    $(AnyQueue::[<$module:camel>](q) => q.enqueue(now, frame, outcomes),)*
                    AnyQueue::Foreign(q) => q.enqueue(now, frame, outcomes),
                }
            }

            #[inline(never)]
            fn pass_other(
                &mut self,
                now: Time,
                frame: Frame,
                outcomes: &mut Vec<Outcome>,
            ) -> bool {
                match self {
                    AnyQueue::DropTail(q) => q.pass(now, frame, outcomes),
                    $(AnyQueue::[<$module:camel>](q) => q.pass(now, frame, outcomes),)*
                    AnyQueue::Foreign(q) => q.pass(now, frame, outcomes),
                }
            }

            #[inline(never)]
            fn load_of_other(&self) -> Load {
                match self {
                    AnyQueue::DropTail(q) => q.load(),
                    $(AnyQueue::[<$module:camel>](q) => q.load(),)*
                    AnyQueue::Foreign(q) => q.load(),
                }
            }

            #[inline(never)]
            fn dequeue_other(&mut self, now: Time, outcomes: &mut Vec<Outcome>) -> Option<Frame> {
                match self {
                    AnyQueue::DropTail(q) => q.dequeue(now, outcomes),
                    $(AnyQueue::[<$module:camel>](q) => q.dequeue(now, outcomes),)*
                    AnyQueue::Foreign(q) => q.dequeue(now, outcomes),
                }
            }
        }

        // The usual discipline takes a short way.
        impl QueueDiscipline for AnyQueue {
            #[inline]
            fn filter(
                &mut self,
                arriving: &Frame,
                headers: &dyn Headers,
                outcomes: &mut Vec<Outcome>,
            ) {
                if !matches!(self, AnyQueue::DropTail(_)) {
                    self.filter_other(arriving, headers, outcomes);
                }
            }

            #[inline]
            fn enqueue(&mut self, now: Time, frame: Frame, outcomes: &mut Vec<Outcome>) {
                match self {
                    AnyQueue::DropTail(q) => q.enqueue(now, frame, outcomes),
                    other => other.enqueue_other(now, frame, outcomes),
                }
            }

            #[inline]
            fn dequeue(&mut self, now: Time, outcomes: &mut Vec<Outcome>) -> Option<Frame> {
                match self {
                    AnyQueue::DropTail(q) => q.dequeue(now, outcomes),
                    other => other.dequeue_other(now, outcomes),
                }
            }

            #[inline]
            fn pass(&mut self, now: Time, frame: Frame, outcomes: &mut Vec<Outcome>) -> bool {
                match self {
                    AnyQueue::DropTail(q) => q.pass(now, frame, outcomes),
                    other => other.pass_other(now, frame, outcomes),
                }
            }

            #[inline]
            fn load(&self) -> Load {
                match self {
                    AnyQueue::DropTail(q) => q.load(),
                    other => other.load_of_other(),
                }
            }

            fn has_room(&self, bytes: u32) -> bool {
                match self {
                    AnyQueue::DropTail(q) => q.has_room(bytes),
                    $(AnyQueue::[<$module:camel>](q) => q.has_room(bytes),)*
                    AnyQueue::Foreign(q) => q.has_room(bytes),
                }
            }
        }
    } };
}
