//! Loss recovery: how losses are detected and repaired.
//!
//! A recovery is composed of boxes with private state. Each is given what it needs (the scoreboard,
//! an ACK, the time) and answers with values: which segments are lost, whether a reduction was
//! spurious, what cwnd is next. An engine (duplicate ACKs, SACK, ns-2's SACK) combines them for one
//! connection and directs the sender's `Stream` by its methods.

pub mod compatible;
pub mod config;
mod defer;
pub mod detect;
mod dupack;
pub(crate) mod engine;
pub mod hints;
mod notices;
pub mod prr;
pub(crate) mod sack;
mod sack_ns2;
mod spurious;
pub mod text;

pub use config::{Eifel, Recovery, RecoveryKind};
pub use detect::LossDetector;
pub use detect::scheme::{DetectorEntry, SchemeDetector};
pub use hints::{AfterHint, HintEntry, HintRules};
pub use sack::Phase;
pub use text::Vocabulary;
