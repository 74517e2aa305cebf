//! What watches a run: measurements, the verifier, captures.

pub mod bursts;
pub mod capture;
pub mod ground_truth;
pub mod ledger;
pub mod limits;
pub mod result;
pub mod verifier;
