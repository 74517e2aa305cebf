//! Bounds of the memory for the state of a flow.

use lasthop::schemes::catalogue::AnyWindow;
use lasthop::tcp::receiver::Receiver;
use lasthop::tcp::scoreboard::Sent;
use lasthop::tcp::sender::Sender;
use lasthop_sim::hosts::endpoint::Connection;

#[test]
fn both_ends_of_a_flow_fit_into_four_kibibytes() {
    let ends = size_of::<Sender<AnyWindow>>() + size_of::<Receiver>();
    assert!(
        ends <= size_of::<Connection>() && size_of::<Connection>() <= 4096,
        "{} bytes",
        size_of::<Connection>()
    );
}

#[test]
fn a_segment_in_flight_takes_at_most_64_bytes_at_the_sender() {
    assert!(size_of::<Sent>() <= 64, "{} bytes", size_of::<Sent>());
}
