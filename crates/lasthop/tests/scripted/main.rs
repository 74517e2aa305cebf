//! Rules of RFCs and papers, one script each: what arrives at a sender, and what it must send. The
//! language is described in `script.rs`.

mod boundaries;
mod discards;
mod dupack;
mod ecn;
mod eifel;
mod eln;
mod esack;
mod estimators;
mod f_rto;
mod linux;
mod linux_bursts;
mod linux_cubic;
mod linux_handshake;
mod linux_pacing;
mod linux_passive_open;
mod linux_rto;
mod linux_socket;
mod noor;
mod offload;
mod packet_list;
mod packetdrill;
mod rack;
mod sack;
mod script;
mod snack;
mod waiting;
