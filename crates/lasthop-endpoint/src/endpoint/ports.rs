//! How sender and receiver send: each through a port to the packets of the connection, which joins
//! the two directions in one header.

use lasthop::schemes::catalogue::AnyWindow;
use lasthop::segment::{Flags, Options, Segment};
use lasthop::tcp::receiver::Receiver;
use lasthop::tcp::sender::{Output, SendReason, Sender};
use lasthop::units::Time;

use super::Endpoint;
use crate::wire::Wire;

/// The output of the sender. Its segments acknowledge what has arrived (RFC 9293, section 3.4).
pub(super) struct SenderPort<'a> {
    receiver: Option<&'a mut Receiver>,
    wire: &'a mut Wire,
}

impl Output for SenderPort<'_> {
    fn send(&mut self, segment: Segment, reason: SendReason) {
        self.send_with(segment, &Options::NONE, reason);
    }

    fn send_with(&mut self, mut segment: Segment, options: &Options, _: SendReason) {
        if let Some(receiver) = &mut self.receiver
            && !segment.flags.has(Flags::SYN)
        {
            receiver.piggyback(&mut segment);
        }
        self.wire.send(segment, options);
    }
}

/// The output of the receiver. Its ACKs have the number of the next byte that this end sends.
pub(super) struct ReceiverPort<'a> {
    wire: &'a mut Wire,
    seq: u64,
    /// When a SYN-ACK was sent.
    syn_ack: &'a mut Option<Time>,
    now: Time,
}

impl Output for ReceiverPort<'_> {
    fn send(&mut self, segment: Segment, reason: SendReason) {
        self.send_with(segment, &Options::NONE, reason);
    }

    fn send_with(&mut self, mut segment: Segment, options: &Options, _: SendReason) {
        // The FIN is the sender's.
        segment.flags = segment.flags.without(Flags::FIN);
        if segment.flags.has(Flags::SYN) {
            *self.syn_ack = Some(self.now);
        } else {
            segment.seq = self.seq;
        }
        self.wire.send(segment, options);
    }
}

#[allow(clippy::multiple_inherent_impl, reason = "one file for each task of a connection")]
impl Endpoint {
    pub(super) fn with_sender(
        &mut self,
        act: impl FnOnce(&mut Sender<AnyWindow>, &mut SenderPort<'_>),
    ) {
        let mut port = SenderPort { receiver: self.receiver.as_mut(), wire: &mut self.wire };
        act(&mut self.sender, &mut port);
    }

    pub(super) fn with_receiver(
        &mut self,
        now: Time,
        act: impl FnOnce(&mut Receiver, &mut ReceiverPort<'_>),
    ) {
        let Some(receiver) = &mut self.receiver else { return };
        let mut syn_ack = None;
        let seq = self.sender.snd_max();
        act(receiver, &mut ReceiverPort { wire: &mut self.wire, seq, syn_ack: &mut syn_ack, now });
        if let Some(at) = syn_ack {
            self.note_syn_ack(at);
        }
    }
}
