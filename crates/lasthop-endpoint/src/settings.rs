//! The settings of an end of a connection.

use lasthop::scenario::network::Flow;
use lasthop::schemes::catalogue::{SchemeChoice, SenderPart};
use lasthop::tcp::profile::{PawsRule, Profile};
use lasthop::tcp::ticks::clock_phase;
use lasthop::units::Duration;

/// 2 MSL, as in Linux (`TCP_TIMEWAIT_LEN`); RFC 9293, section 3.4.2, has 4 minutes.
const TIME_WAIT: Duration = Duration::secs(60);
/// Smallest time between two ACKs of segments that cannot be of the connection (Linux
/// `tcp_invalid_ratelimit`; RFC 5961, section 7, asks for a limit).
const INVALID_RATELIMIT: Duration = Duration::millis(500);
/// Retransmissions of a SYN-ACK (Linux `tcp_synack_retries`).
const SYNACK_RETRIES: u32 = 5;
/// Bytes of IPv4 and TCP headers without options.
const HEADERS: u32 = 40;
/// Bytes of the timestamps option with its padding.
pub(crate) const TIMESTAMPS_BYTES: u32 = 12;

/// Probes of an idle connection (RFC 9293, section 3.8.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeepAlive {
    /// How long nothing has arrived before the first probe.
    pub idle: Duration,
    /// Time between probes.
    pub interval: Duration,
    /// Unanswered probes after which the connection is given up.
    pub probes: u32,
}

/// What a relay controls of an end of a split connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RelayEnd {
    /// The receiver: data arrive here. The window of the SYN, if it is less than the buffer.
    Inbound {
        /// Bytes.
        first_window: Option<u64>,
    },
    /// The sender: data leave here, with the window rule that the scheme has for this leg.
    Outbound,
}

/// The settings of an end of a connection.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The scheme: window rule and recovery of the sender, part in the receiver.
    pub scheme: SchemeChoice,
    /// Constants and switches of the stack. What the SYNs do not negotiate is switched off.
    pub profile: Profile,
    /// Largest IP packet, bytes.
    pub mtu: u32,
    /// Receive buffer, bytes.
    pub receive_buffer: u64,
    /// Bytes that [`write`](crate::Endpoint::write) accepts before the peer has acknowledged any.
    pub send_buffer: usize,
    /// What arrives in order makes room for more at once, as if the application had read it. Then
    /// the window does not hold the peer back.
    pub reads_at_once: bool,
    /// Each connection has its own offset of the timestamp clock, so that the clock does not show
    /// how long the host has been running (RFC 7323, section 5.4).
    pub hides_clock: bool,
    /// Probes of an idle connection, if it is probed.
    pub keep_alive: Option<KeepAlive>,
    /// How long the end that closes first remembers the connection (2 MSL).
    pub time_wait: Duration,
    /// Where the clock of the timers stands at time zero.
    pub clock_phase: Duration,
    /// What the window rule draws at random derives from this number.
    pub draw: u64,
    /// The connection is the second leg of a split one: it has the sender and the profile that the
    /// scheme gives to that leg.
    pub is_second_leg: bool,
    /// What a relay controls of it, if it is a relay's.
    pub relay: Option<RelayEnd>,
}

impl Settings {
    /// For packets of up to 1500 bytes, with buffers of 4 MiB. The clock of its timers stands at 0.
    pub fn new(scheme: SchemeChoice, profile: Profile) -> Settings {
        Settings {
            scheme,
            profile,
            mtu: 1500,
            receive_buffer: 4 << 20,
            send_buffer: 4 << 20,
            reads_at_once: false,
            hides_clock: true,
            keep_alive: None,
            time_wait: TIME_WAIT,
            clock_phase: Duration::ZERO,
            draw: 0,
            is_second_leg: false,
            relay: None,
        }
    }

    /// Sender and profile that the scheme has over `profile`.
    pub(crate) fn stack(&self, profile: &Profile) -> (SenderPart, Profile) {
        if self.is_second_leg {
            return self.scheme.outbound(profile);
        }
        let part = self.scheme.sender(profile);
        let profile = part.profile(profile);
        (part, profile)
    }

    /// The settings with which a flow of a scenario is simulated with this seed, as its first
    /// connection. Its segments have the size that the scenario gives them, if the peer permits it.
    pub fn of_flow(flow: &Flow, seed: u64) -> Settings {
        let part = flow.scheme.sender(&flow.profile);
        let profile = part.profile(&flow.profile);
        let options = if profile.timestamps { TIMESTAMPS_BYTES } else { 0 };
        Settings {
            mtu: flow.segment + HEADERS + options,
            receive_buffer: flow.receive_window.bytes(flow.segment),
            clock_phase: clock_phase(&profile, seed, 0),
            draw: flow.draw.unwrap_or_default(),
            ..Settings::new(flow.scheme.clone(), flow.profile.clone())
        }
    }
}

/// The profile with what a connection on real packets cannot do without: the simulators of some
/// profiles have none of it.
pub(crate) fn with_wire_rules(profile: &Profile) -> Profile {
    let paws = match profile.paws {
        PawsRule::Off => PawsRule::Rfc7323,
        // The ticks of a real peer's clock are not known.
        PawsRule::Linux => PawsRule::LinuxUsec,
        rule => rule,
    };
    Profile {
        full_handshake: true,
        challenge_acks: true,
        paws,
        invalid_ratelimit: profile.invalid_ratelimit.max(INVALID_RATELIMIT),
        synack_retries: match profile.synack_retries {
            0 => SYNACK_RETRIES,
            retries => retries,
        },
        ..profile.clone()
    }
}
