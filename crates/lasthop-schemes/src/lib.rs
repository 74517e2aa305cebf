//! The schemes of the papers, one file each, in three folders after the papers' taxonomy.

pub mod catalogue;
pub mod end_to_end {
    //! Schemes that change the end hosts only.
    pub mod base;
    pub mod bbr;
    pub mod bbr3;
    pub mod casablanca;
    pub mod cubic;
    pub mod dcr;
    pub mod eifel;
    pub mod esack;
    pub mod ewln;
    pub mod f_rto;
    pub mod fack;
    pub mod hack;
    pub mod hack_fixed;
    #[cfg(test)]
    mod harness;
    mod hystart;
    pub mod ideal_bwe;
    pub mod jersey;
    pub mod jtcp;
    pub mod lhp;
    pub mod ncr;
    pub mod newreno;
    pub mod newreno_ff;
    pub mod noor;
    pub mod rack;
    pub mod reno;
    mod rounds;
    pub mod sack;
    pub mod santa_cruz;
    pub mod selective_tcp;
    pub mod snack;
    pub mod tahoe;
    pub mod tcp_eln;
    pub mod tcp_real;
    pub mod tibet;
    pub mod vegas;
    pub mod veno;
    pub mod westwood;
    pub mod westwood_plus;
    pub mod wtcp;
}
pub mod link_layer {
    //! Schemes that work at the base station under the end-to-end connection.
    pub mod ack_pacing;
    pub mod balakrishnan_eln;
    mod cache;
    pub mod link_watch;
    pub mod ll_elsn;
    mod pacer;
    #[cfg(test)]
    mod pacing_bench;
    pub mod packet_control;
    pub mod rate_control;
    pub mod snack_snoop;
    pub mod snoop;
    pub mod tcp_f;
}
pub mod loss_detectors;
pub mod split {
    //! Schemes that cut the connection in two.
    pub mod i_tcp;
    pub mod m_tcp;
    pub mod mtcp;
    pub mod rnf;

    use lasthop_core::units::Size;

    /// The default buffer of a relay: about the largest window of a TCP without window scaling (RFC
    /// 7323).
    const PUBLISHED: Size = Size::Bytes(64_000);

    /// The window of a local leg without congestion control (a choice; the sources give none).
    const WINDOW: Size = Size::Segments(32.0);

    /// What is wrong with the setting `buffer` of a relay, if anything is.
    fn check_buffer(buffer: Option<Size>) -> Result<(), String> {
        match buffer {
            Some(Size::Bytes(0)) => Err("buffer must be at least 1 B".into()),
            None | Some(Size::Bytes(_)) => Ok(()),
            Some(Size::Segments(_)) => Err("buffer must be given in bytes".into()),
        }
    }
}
