//! The catalogue: the one list of schemes, read by the command line, the docs, the tests and the
//! reports.

mod choice;
mod profile_keys;
mod recovery;
mod scheme;
mod slots;

pub use choice::split_short;
pub use choice::{ForeignSchemes, SchemeChoice, SchemeText, SenderPart};
pub use profile_keys::ProfileKeys;
pub use recovery::{RecoveryKey, RecoverySetting, VOCABULARY};
pub use scheme::{
    Bound, Entry, Family, Footprint, Group, Scheme, SchemeConfig, Setting, all, settings,
};
pub use slots::{AnyAgent, AnyWindow, ForeignAgent, ForeignWindow, RecoverySlot};
