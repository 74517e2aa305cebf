//! Impairments: what happens to frames of a link besides queueing and loss on the air. As netem and
//! `tc police`. A link with one of them is evented.
//!
//! An impairment is a file and a word in the list. The word is its key in a scenario file; the file
//! has `DOC` (the documentation of the key), `Settings`, a `Process` with [`Impair`], and `Key`
//! with [`Impairment`].

mod draws;

use lasthop_core::diagnostics::Mistake;
use lasthop_core::units::Time;

/// An invalid setting: the key below that of the impairment, empty for itself, and the mistake.
pub type Fault = (&'static str, Mistake);

/// A kind of impairment.
///
/// # Examples
///
/// ```
/// use lasthop_channel::link::impairment::{Impair, Impairment, duplicate};
/// use lasthop_core::units::Share;
///
/// let half = Share(0.5);
/// assert!(duplicate::Key::is_random(&half));
/// let mut copies = duplicate::Key::process(&half, "bs>phone", 1).unwrap();
/// let followed = (0..1000).filter(|_| copies.duplicates()).count();
/// assert!((400..600).contains(&followed));
/// ```
pub trait Impairment {
    /// Its value in a scenario file.
    type Settings;
    /// What it does on one link.
    type Process: Impair;

    /// Checks the values.
    ///
    /// # Errors
    ///
    /// The key, and what is wrong with its value.
    fn check(_settings: &Self::Settings) -> Result<(), Fault> {
        Ok(())
    }

    /// Bytes of a token bucket: larger frames never pass.
    fn burst(_settings: &Self::Settings) -> Option<u64> {
        None
    }

    /// True if what happens depends on the seed.
    fn is_random(_settings: &Self::Settings) -> bool {
        false
    }

    /// The process on the link with this name; `None` if all frames pass unchanged.
    fn process(settings: &Self::Settings, link: &str, seed: u64) -> Option<Self::Process>;
}

/// The process of an impairment. A frame meets the methods in this order.
///
/// # Examples
///
/// ```
/// use lasthop_channel::link::impairment::Impair;
/// use lasthop_core::units::Time;
///
/// /// Drops every second frame.
/// struct Alternating(bool);
///
/// impl Impair for Alternating {
///     fn drops(&mut self, _now: Time, _bytes: u32) -> Option<&'static str> {
///         self.0 = !self.0;
///         self.0.then_some("alternating")
///     }
/// }
/// assert_eq!(Alternating(false).drops(Time::ZERO, 1500), Some("alternating"));
/// ```
pub trait Impair {
    /// True if frames may arrive with bit errors that the link layer does not detect.
    const CORRUPTS: bool = false;

    /// Whether a copy follows the frame. Called once for each frame that is not a copy.
    fn duplicates(&mut self) -> bool {
        false
    }

    /// Before the queue: the reason why the frame of `bytes` is dropped; `None`: it passes.
    fn drops(&mut self, _now: Time, _bytes: u32) -> Option<&'static str> {
        None
    }

    /// Whether the frame that has just arrived has a bit error: a number from 0 to 1 for its place
    /// in the frame.
    fn corrupts(&mut self) -> Option<f64> {
        None
    }
}

/// The list of impairments, in the order of the documentation: passes their words to a macro.
#[macro_export]
macro_rules! impairments {
    ($receiver:ident) => {
        $receiver! { policer, duplicate, corrupt }
    };
}

macro_rules! define {
    ($($name:ident),*) => {
        $(pub mod $name;)*

        /// The impairments of a link.
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct Impairments {
            $(
                #[doc = concat!("See [`", stringify!($name), "`].")]
                pub $name: Option<$name::Settings>,
            )*
        }

        impl Impairments {
            /// Checks all values.
            ///
            /// # Errors
            ///
            /// The key of an impairment and its fault.
            pub fn check(&self) -> Result<(), (&'static str, Fault)> {
                $(if let Some(settings) = &self.$name {
                    $name::Key::check(settings).map_err(|fault| (stringify!($name), fault))?;
                })*
                Ok(())
            }

            /// The keys of those with a token bucket, and the bytes of that.
            pub fn bursts(&self) -> Vec<(&'static str, u64)> {
                let all = [$(
                    (stringify!($name), self.$name.as_ref().and_then($name::Key::burst)),
                )*];
                all.into_iter().filter_map(|(key, bytes)| Some((key, bytes?))).collect()
            }

            /// True if what happens to frames depends on the seed.
            pub fn is_random(&self) -> bool {
                [$(self.$name.as_ref().is_some_and($name::Key::is_random)),*].contains(&true)
            }
        }

        /// The impairments of a link at work.
        #[derive(Debug)]
        pub(super) struct Processes {
            $($name: Option<$name::Process>,)*
        }

        impl Processes {
            /// Those of a link; `None` if it has none.
            pub fn new(all: &Impairments, link: &str, seed: u64) -> Option<Box<Processes>> {
                let made = Processes {
                    $($name: all.$name.as_ref().and_then(|s| $name::Key::process(s, link, seed)),)*
                };
                let any = [$(made.$name.is_some()),*].contains(&true);
                any.then(|| Box::new(made))
            }

            /// See [`Impair::CORRUPTS`].
            pub fn may_corrupt(&self) -> bool {
                [$(<$name::Process as Impair>::CORRUPTS && self.$name.is_some()),*].contains(&true)
            }

            /// See [`Impair::duplicates`].
            pub fn duplicates(&mut self) -> bool {
                let mut hit = false;
                $(hit |= self.$name.as_mut().is_some_and(|i| i.duplicates());)*
                hit
            }

            /// See [`Impair::drops`].
            pub fn drops(&mut self, now: Time, bytes: u32) -> Option<&'static str> {
                $(if let Some(reason) = self.$name.as_mut().and_then(|i| i.drops(now, bytes)) {
                    return Some(reason);
                })*
                None
            }

            /// See [`Impair::corrupts`].
            pub fn corrupts(&mut self) -> Option<f64> {
                let mut place = None;
                $(place = self.$name.as_mut().and_then(|i| i.corrupts()).or(place);)*
                place
            }
        }
    };
}

impairments!(define);
