//! The schemes of the papers, one file each, in three folders after the papers' taxonomy.

pub mod catalogue;
pub mod end_to_end {
    //! Schemes that change the end hosts only.
    pub mod fack;
    pub mod newreno;
    pub mod rack;
    pub mod reno;
    pub mod sack;
    pub mod tahoe;
}
pub mod link_layer {
    //! Schemes that work at the base station under the end-to-end connection.
    pub mod packet_control;
    pub mod snoop;
}
pub mod split {
    //! Schemes that cut the connection in two.
    pub mod i_tcp;
}
