//! The two connections as a relay sees them.

use super::*;

pub struct LegControl<'a> {
    pub network: &'a mut Network,
    pub legs: &'a mut [Connection; 2],
    pub wake: &'a mut Option<Time>,
    pub moved: &'a mut u64,
}

impl LegControl<'_> {
    fn receiver(&mut self) -> (&mut Receiver, Time, ChannelOutput<'_>) {
        let now = self.network.now;
        (&mut self.legs[0].receiver, now, ChannelOutput(self.network, 1))
    }

    fn sender(&mut self) -> (&mut Sender<AnyWindow>, Time, ChannelOutput<'_>) {
        let now = self.network.now;
        (&mut self.legs[1].sender, now, ChannelOutput(self.network, 2))
    }
}

impl SplitConnection for LegControl<'_> {
    fn capabilities(&self) -> Capabilities {
        Capabilities { window: true, receive_window: true, acknowledge: true, hold: true }
    }
    fn readable(&self) -> u64 {
        self.legs[0].receiver.unread()
    }
    fn unacknowledged(&self) -> u64 {
        let sender = &self.legs[1].sender;
        sender.written() - sender.snd_una().min(sender.written())
    }
    fn in_flight(&self) -> u64 {
        self.legs[1].sender.flight()
    }
    fn segment(&self) -> (u32, u32) {
        (MSS, self.legs[1].sender.full_size())
    }
    fn round_trip(&self, side: Side) -> Option<Duration> {
        self.legs[usize::from(side == Side::Outbound)].min_rtt
    }
    fn transfer(&mut self, bytes: u64) -> u64 {
        let n = bytes.min(self.readable());
        if n > 0 {
            let (receiver, now, mut out) = self.receiver();
            receiver.read(now, n, MSS, &mut out);
            let (sender, now, mut out) = self.sender();
            sender.write(now, n, &mut out);
            *self.moved += n;
        }
        n
    }
    fn set_receive_window(&mut self, bytes: u64) {
        let (receiver, now, mut out) = self.receiver();
        receiver.set_window_limit(now, bytes, MSS, &mut out);
    }
    fn acknowledge_up_to(&mut self, offset: u64) {
        let (receiver, now, mut out) = self.receiver();
        receiver.acknowledge_up_to(now, offset, &mut out);
    }
    fn close_window(&mut self, offset: u64) {
        let (receiver, now, mut out) = self.receiver();
        receiver.close_window(now, offset, &mut out);
    }
    fn open_window(&mut self, offset: u64) {
        let (receiver, now, mut out) = self.receiver();
        receiver.open_window(now, offset, &mut out);
    }
    fn wake(&mut self, at: Time) {
        *self.wake = Some(at.max(self.network.now));
    }
    fn set_window(&mut self, bytes: u64) {
        let (sender, now, mut out) = self.sender();
        sender.set_window(now, bytes, &mut out);
    }
    fn hold(&mut self) {
        self.legs[1].sender.hold();
    }
    fn resume(&mut self, lost: u64) {
        let (sender, now, mut out) = self.sender();
        sender.resume(now, lost, &mut out);
    }
    fn half_close(&mut self) {
        let (sender, now, mut out) = self.sender();
        sender.close(now, &mut out);
    }
    fn reset(&mut self, side: Side) {
        match side {
            Side::Inbound => {
                let (receiver, now, mut out) = self.receiver();
                receiver.reset(now, &mut out);
            }
            Side::Outbound => {
                let (sender, now, mut out) = self.sender();
                sender.reset(now, &mut out);
            }
        }
    }
}
