//! The medium access control of a cell: all constants and switches.
//!
//! The defaults are those of IEEE 802.11-1999 with the 802.11b PHY (high rate, 2.4 GHz). There is a
//! switch for each point in which a simulator differs from the standard or from another one, so
//! that its effect can be measured separately.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::phy::{Generation, LEGACY_PREAMBLE, legacy_ppdu, lowest_rate, mandatory_rate};
use lasthop_core::units::{Duration, Rate, Size};

/// The named kinds of cells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum MacName {
    /// 802.11b: the distributed coordination function (DCF) with link ACKs, at 11 Mbit/s.
    #[default]
    #[serde(rename = "802.11b")]
    Dot11b,
    /// A LAN with CSMA/CA and no link ACKs, such as the first WaveLAN: 10 Mbit/s, each frame is
    /// sent once.
    #[serde(rename = "csma-lan")]
    CsmaLan,
    /// 802.11a (OFDM at 5 GHz): the DCF at 54 Mbit/s.
    #[serde(rename = "802.11a")]
    Dot11a,
    /// 802.11g (OFDM at 2.4 GHz) without stations of 802.11b: the DCF at 54 Mbit/s.
    #[serde(rename = "802.11g")]
    Dot11g,
    /// 802.11n (HT): EDCA, aggregation and block acknowledgements at 5 GHz.
    #[serde(rename = "802.11n")]
    Dot11n,
    /// 802.11ac (VHT), likewise.
    #[serde(rename = "802.11ac")]
    Dot11ac,
    /// 802.11ax (HE, to one station at a time), likewise.
    #[serde(rename = "802.11ax")]
    Dot11ax,
}

impl MacName {
    /// True if one of the members is an access point.
    pub fn has_access_point(self) -> bool {
        self != MacName::CsmaLan
    }

    /// True if data have one of the [`LEGACY_RATES`](super::phy::LEGACY_RATES).
    pub fn has_legacy_rates(self) -> bool {
        matches!(self, MacName::Dot11a | MacName::Dot11g)
    }

    /// Generation of the PHY, of the kinds that aggregate frames.
    pub fn generation(self) -> Option<Generation> {
        match self {
            MacName::Dot11b | MacName::CsmaLan | MacName::Dot11a | MacName::Dot11g => None,
            MacName::Dot11n => Some(Generation::Ht),
            MacName::Dot11ac => Some(Generation::Vht),
            MacName::Dot11ax => Some(Generation::He),
        }
    }
}

/// What precedes every frame, sent at 1 or 2 Mbit/s.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(untagged, expecting = "expected \"long\", \"short\" or a time such as \"192 us\"")]
pub enum Preamble {
    /// Duration of the preamble.
    Takes(Duration),
    /// A preamble of 802.11b.
    Named(PreambleName),
}

/// 802.11b's preambles, header included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PreambleName {
    /// 144 + 48 bits at 1 Mbit/s: 192 µs.
    Long,
    /// 72 bits at 1 Mbit/s and 48 at 2 Mbit/s: 96 µs.
    Short,
}

impl Preamble {
    /// Duration on the air.
    pub fn time(self) -> Duration {
        match self {
            Preamble::Takes(time) => time,
            Preamble::Named(PreambleName::Long) => Duration::micros(192),
            Preamble::Named(PreambleName::Short) => Duration::micros(96),
        }
    }

    /// Bytes of it that a bit error can destroy.
    fn bytes(self) -> u32 {
        if self == Preamble::Named(PreambleName::Short) { 15 } else { 24 }
    }
}

/// When a station may send without a back-off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Access {
    /// If its frame arrives at an idle medium (802.11, section 9.2.5.1). In 802.11n, 802.11ac and
    /// 802.11ax, slots are counted as EDCA does (802.11-2020, 10.23.2.4): a station that is
    /// overtaken subtracts one more than with the DCF, and a frame that arrives at an idle medium
    /// is sent at the next slot boundary.
    Idle,
    /// As `Idle`, with the rules of ns-3: the medium must be idle for DIFS from then on; a station
    /// that is overtaken meanwhile still needs no back-off; and the interval between a frame and
    /// its link ACK counts as idle for the receiver of the frame, so that an immediate answer of
    /// its stack needs no back-off either (except an answer to an aggregate). In 802.11n, 802.11ac
    /// and 802.11ax, slots are counted as with `Idle`, no station waits for EIFS after a collision,
    /// a BlockAckReq precedes an aggregate of which nothing was received, and the reorder buffer
    /// waits without a limit.
    #[serde(rename = "ns-3")]
    Ns3,
    /// Never: there is a back-off before each frame (ns-2). Slots are counted as the DCF does, also
    /// in 802.11n, 802.11ac and 802.11ax.
    #[serde(rename = "ns-2")]
    Ns2,
    /// `Mac/Csma/Ca` of ns (1997 to 2002), without link ACKs. An idle medium needs no back-off. A
    /// station that finds it busy senses it again a random number of slots after DIFS; slots are
    /// counted also while others send, and each busy medium doubles the window. After its own frame
    /// a station pauses for DIFS and `cw_min` slots.
    #[serde(rename = "csma-ca")]
    CsmaCa,
}

/// How long stations wait after a collision or a damaged frame before they count slots again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AfterCollision {
    /// Receivers wait for EIFS, senders for their ACK timeout (SIFS, a slot, a preamble) and DIFS.
    AckTimeout,
    /// All stations wait for EIFS.
    Eifs,
    /// All stations wait for DIFS (the model of Bianchi 2000).
    Difs,
    /// ns-2: receivers wait for EIFS and DIFS, and so do senders, except the sender whose frame
    /// ends last; it waits for the duration of the ACK and DIFS.
    #[serde(rename = "ns-2")]
    Ns2,
}

/// How long a frame takes on the air.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameTime {
    /// This preamble and the bytes.
    Bytes(Duration),
    /// The preamble and whole symbols of OFDM, and this extension.
    Symbols(Duration),
}

impl FrameTime {
    /// Duration of a frame of `bytes` bytes at `rate`.
    #[inline]
    pub fn of(self, bytes: u64, rate: Rate) -> Duration {
        match self {
            FrameTime::Bytes(preamble) => preamble + rate.time_for(bytes),
            FrameTime::Symbols(extension) => legacy_ppdu(bytes, rate) + extension,
        }
    }
}

macro_rules! mac {
    ($($(#[$doc:meta])* $field:ident: $t:ty,)*) => {
        /// The constants and switches of a cell's medium access control.
        #[derive(Clone, Debug, PartialEq)]
        pub struct Mac {
            /// The kind of cell.
            pub mac: MacName,
            $($(#[$doc])* pub $field: $t,)*
        }

        /// The keys of a `[[cell]]` that override single values.
        #[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        pub struct MacKeys {
            /// The kind, which gives the default of every other key. Default: "802.11b".
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub mac: Option<MacName>,
            $(
                $(#[$doc])*
                #[serde(default, skip_serializing_if = "Option::is_none")]
                pub $field: Option<$t>,
            )*
        }

        impl MacKeys {
            /// All values.
            pub fn mac(&self) -> Mac {
                let mut mac = Mac::named(self.mac.unwrap_or_default());
                $(if let Some(v) = self.$field { mac.$field = v; })*
                mac
            }
        }

        impl Mac {
            /// Every value as a key, for a scenario with all defaults filled in.
            pub fn keys(&self) -> MacKeys {
                MacKeys { mac: Some(self.mac), $($field: Some(self.$field),)* }
            }
        }
    };
}

mac! {
    /// Rate of data frames behind the preamble. Default: 11 Mbps ("csma-lan": 10 Mbps; "802.11a"
    /// and "802.11g", which have 6, 9, 12, 18, 24, 36, 48 and 54 Mbps: 54 Mbps). The rate of
    /// "802.11n" and its successors follows from width, streams, mcs and guard_interval.
    data_rate: Rate,
    /// Rate of link ACKs, RTS and CTS. Default: 2 Mbps ("csma-lan": 10 Mbps). "802.11a", "802.11g",
    /// "802.11n" and its successors: the highest of these rates, 6, 12 or 24 Mbps; a low rate of
    /// data or a low MCS has a lower one. Default: 24 Mbps.
    basic_rate: Rate,
    /// Preamble and header of the PHY before every frame: "long", "short" or a time. Default:
    /// "long" ("csma-lan": 19.2 us; that of OFDM, 20 us, is fixed).
    preamble: Preamble,
    /// MAC header, frame check sequence and LLC header, sent at the data rate. Default: 36 B
    /// ("802.11n" and its successors: 38 B).
    overhead: Size,
    /// Maximum number of attempts per frame, the first one included; 1: no retransmission. Default:
    /// 7.
    attempts: u32,
    /// Frames or aggregates above this size (MAC header included) are preceded by RTS and CTS.
    /// Default: 2347 B, larger than any frame ("802.11n" and its successors: 7 MB).
    rts_threshold: Size,
    /// The receiver acknowledges each frame. Default: true ("csma-lan": false).
    link_acks: bool,
    /// Slot. Default: 20 us ("802.11a", "802.11g", "802.11n" and its successors: 9 us).
    slot: Duration,
    /// Pause between a frame and its link ACK. Default: 10 us ("802.11a", "802.11n" and its
    /// successors: 16 us).
    sifs: Duration,
    /// Idle time before slots are counted. Default: 50 us ("802.11a": 34 us, "802.11g": 28 us).
    /// "802.11n" and its successors have sifs and aifsn slots instead.
    difs: Duration,
    /// From the end of a frame to its arrival at its receiver's stack (propagation, processing), at
    /// most `difs`. Default: 0 s.
    delay: Duration,
    /// Smallest contention window, in slots. Default: 31 ("802.11a", "802.11g", "802.11n" and its
    /// successors: 15, with access category "VI" 7, with "VO" 3).
    cw_min: u32,
    /// Largest contention window, to which it doubles with each failed attempt. Default: 1023
    /// (access category "VI": 15, "VO": 7).
    cw_max: u32,
    /// A back-off is drawn from 0 to cw slots; if false, from 0 to cw - 1 (ns-2). Default: true.
    backoff_includes_cw: bool,
    /// When a station may send without a back-off. Default: "idle".
    access: Access,
    /// With access "csma-ca": a frame that finds the medium busy this number of times is dropped
    /// (persistent contention). 0: never. Default: 0.
    max_deferrals: u32,
    /// How long stations wait after a collision. Default: "ack-timeout" ("csma-lan": "difs").
    after_collision: AfterCollision,
}

impl Mac {
    /// A kind by name.
    pub fn named(name: MacName) -> Mac {
        match name {
            MacName::Dot11b => Mac::dot11b(),
            MacName::CsmaLan => Mac {
                mac: MacName::CsmaLan,
                data_rate: Rate(10_000_000),
                preamble: Preamble::Takes(Duration(19_200)),
                attempts: 1,
                link_acks: false,
                // Without link ACKs no time has to be reserved for them.
                after_collision: AfterCollision::Difs,
                basic_rate: Rate(10_000_000),
                ..Mac::dot11b()
            },
            MacName::Dot11a => Mac::legacy_ofdm(name, Duration::micros(16)),
            MacName::Dot11g => Mac::legacy_ofdm(name, Duration::micros(10)),
            MacName::Dot11n | MacName::Dot11ac | MacName::Dot11ax => Mac::ofdm(name),
        }
    }

    /// 802.11a and 802.11g (802.11-2020, tables 17-21 and 18-5, short slot).
    fn legacy_ofdm(name: MacName, sifs: Duration) -> Mac {
        Mac {
            data_rate: Rate(54_000_000),
            overhead: Size::Bytes(36),
            rts_threshold: Size::Bytes(2347),
            sifs,
            difs: sifs + Duration::micros(2 * 9),
            ..Mac::ofdm(name)
        }
    }

    /// How long frames take.
    pub fn frame_time(&self) -> FrameTime {
        match self.mac {
            MacName::Dot11b | MacName::CsmaLan => FrameTime::Bytes(self.preamble.time()),
            MacName::Dot11g => FrameTime::Symbols(SIGNAL_EXTENSION),
            _ => FrameTime::Symbols(Duration::ZERO),
        }
    }

    /// Rate of link ACKs, RTS and CTS.
    pub fn control_rate(&self) -> Rate {
        if self.mac.has_legacy_rates() {
            return mandatory_rate(self.basic_rate.min(self.data_rate));
        }
        self.basic_rate
    }

    /// 802.11n and its successors at 5 GHz (802.11-2020, table 17-21: slot, SIFS, windows). An MPDU
    /// has a QoS header of 26 bytes, 8 bytes of LLC and SNAP and an FCS of 4 bytes. `difs` is the
    /// AIFS of best effort, `data_rate` that of one stream at 20 MHz with MCS 7: the scenario
    /// replaces both.
    fn ofdm(name: MacName) -> Mac {
        Mac {
            mac: name,
            data_rate: Rate(65_000_000),
            basic_rate: Rate(24_000_000),
            preamble: Preamble::Takes(LEGACY_PREAMBLE),
            overhead: Size::Bytes(38),
            rts_threshold: Size::Bytes(7_000_000),
            slot: Duration::micros(9),
            sifs: Duration::micros(16),
            difs: Duration::micros(43),
            cw_min: 15,
            ..Mac::dot11b()
        }
    }

    fn dot11b() -> Mac {
        Mac {
            mac: MacName::Dot11b,
            data_rate: Rate(11_000_000),
            basic_rate: Rate(2_000_000),
            preamble: Preamble::Named(PreambleName::Long),
            overhead: Size::Bytes(36),
            attempts: 7,
            rts_threshold: Size::Bytes(2347),
            link_acks: true,
            slot: Duration::micros(20),
            sifs: Duration::micros(10),
            difs: Duration::micros(50),
            delay: Duration::ZERO,
            cw_min: 31,
            cw_max: 1023,
            backoff_includes_cw: true,
            access: Access::Idle,
            max_deferrals: 0,
            after_collision: AfterCollision::AckTimeout,
        }
    }
}

/// Bytes of a link ACK and of a CTS (802.11, sections 7.2.1.2 and 7.2.1.3).
pub(super) const ACK_BYTES: u32 = 14;
/// Bytes of an RTS (section 7.2.1.1).
pub(super) const RTS_BYTES: u32 = 20;
/// Idle time at the end of each frame of OFDM at 2.4 GHz (802.11-2020, 18.3.2.4).
const SIGNAL_EXTENSION: Duration = Duration(6_000);
/// EIFS assumes an ACK at the lowest rate (section 9.2.10).
const LOWEST_RATE: Rate = Rate(1_000_000);
/// ns-2 adds twice this, the longest propagation, to its ACK timeout.
const NS2_PROPAGATION: Duration = Duration::micros(2);

/// Durations derived from the settings.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timing {
    /// Durations of frames.
    pub frame_time: FrameTime,
    /// Rate of data frames.
    pub data_rate: Rate,
    /// Bytes of the preamble, of a link ACK or CTS and of an RTS with it, for bit errors.
    pub preamble_bytes: u32,
    pub ack_bytes: u32,
    pub rts_bytes: u32,
    pub sifs: Duration,
    pub difs: Duration,
    /// Duration of a link ACK or CTS on the air.
    pub ack: Duration,
    /// Duration of an RTS on the air.
    pub rts: Duration,
    /// Wait of a station that has received a damaged frame.
    pub garbled: Duration,
    /// Wait of a station whose frame was not acknowledged, from the end of the frame.
    pub unanswered: Duration,
}

impl Timing {
    pub(super) fn new(mac: &Mac) -> Timing {
        let preamble = mac.preamble.time();
        let frame_time = mac.frame_time();
        let control = |bytes: u32, rate: Rate| frame_time.of(bytes.into(), rate);
        let basic_rate = mac.control_rate();
        let ack = control(ACK_BYTES, basic_rate);
        // Without a rate below it (a LAN that is not 802.11) the basic rate is the lowest.
        let lowest = if mac.mac.has_legacy_rates() {
            lowest_rate()
        } else if let Preamble::Takes(_) = mac.preamble {
            mac.basic_rate
        } else {
            LOWEST_RATE.min(mac.basic_rate)
        };
        let eifs = mac.sifs + mac.difs + control(ACK_BYTES, lowest);
        let ack_timeout = mac.sifs + mac.slot + preamble;
        let (garbled, unanswered) = match mac.after_collision {
            AfterCollision::Eifs | AfterCollision::AckTimeout => (eifs, ack_timeout + mac.difs),
            AfterCollision::Difs => (mac.difs, mac.difs),
            AfterCollision::Ns2 => {
                (eifs + mac.difs, mac.sifs + ack + NS2_PROPAGATION * 2 + mac.difs)
            }
        };
        let preamble_bytes = mac.preamble.bytes();
        Timing {
            frame_time,
            data_rate: mac.data_rate,
            preamble_bytes,
            ack_bytes: ACK_BYTES + preamble_bytes,
            rts_bytes: RTS_BYTES + preamble_bytes,
            sifs: mac.sifs,
            difs: mac.difs,
            ack,
            rts: control(RTS_BYTES, basic_rate),
            garbled,
            // Without link ACKs no station waits for one.
            unanswered: if mac.link_acks { unanswered } else { mac.difs },
        }
    }

    /// Duration of a data frame of `bytes` bytes (overhead included) on the air.
    #[inline]
    pub(super) fn data(&self, bytes: u32) -> Duration {
        self.frame_time.of(bytes.into(), self.data_rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The constants that were measured in ns-2.35 with these settings: data 944 µs, link ACK 304
    /// µs at 1 Mbit/s and 202.2 µs at 11 Mbit/s, EIFS 364 µs whatever the basic rate.
    #[test]
    fn frames_take_the_times_of_802_11b() {
        let mac = Mac {
            basic_rate: Rate(1_000_000),
            overhead: Size::Bytes(34),
            ..Mac::named(MacName::Dot11b)
        };
        let t = Timing::new(&mac);
        assert_eq!(
            (t.data(1034), t.ack, t.rts),
            (Duration::micros(944), Duration::micros(304), Duration::micros(352))
        );
        assert_eq!(t.garbled, Duration::micros(364));
        assert_eq!(t.unanswered, Duration::micros(10 + 20 + 192 + 50));
        let fast = Timing::new(&Mac {
            basic_rate: Rate(11_000_000),
            after_collision: AfterCollision::Ns2,
            ..mac
        });
        assert_eq!((fast.ack, fast.garbled), (Duration(202_182), Duration::micros(364 + 50)));
        assert_eq!(fast.unanswered, Duration(10_000 + 202_182 + 4_000 + 50_000));
        let short = Timing::new(&Mac {
            preamble: Preamble::Named(PreambleName::Short),
            ..Mac::named(MacName::Dot11b)
        });
        assert_eq!(
            (short.ack, short.data(1100)),
            (Duration::micros(96 + 56), Duration::micros(96 + 800))
        );
    }

    /// 1536 bytes at 54 Mbit/s are ceil((16 + 8 · 1536 + 6) / 216) = 57 symbols; a link ACK of 14
    /// bytes at 24 Mbit/s has 2, at 6 Mbit/s 6.
    #[test]
    fn frames_of_ofdm_take_whole_symbols() {
        let us = Duration::micros;
        let a = Timing::new(&Mac::named(MacName::Dot11a));
        assert_eq!((a.data(1536), a.ack, a.difs), (us(20 + 57 * 4), us(28), us(34)));
        assert_eq!((a.garbled, a.unanswered), (us(16 + 44 + 34), us(16 + 9 + 20 + 34)));
        let g = Timing::new(&Mac::named(MacName::Dot11g));
        assert_eq!((g.data(1536), g.ack, g.difs), (us(20 + 57 * 4 + 6), us(34), us(28)));
        let slow = Mac { data_rate: Rate(9_000_000), ..Mac::named(MacName::Dot11a) };
        assert_eq!((Timing::new(&slow).ack, slow.control_rate()), (us(44), Rate(6_000_000)));
    }

    #[test]
    fn keys_change_single_values() {
        let keys = MacKeys { mac: Some(MacName::CsmaLan), attempts: Some(3), ..MacKeys::default() };
        let mac = keys.mac();
        assert_eq!((mac.attempts, mac.link_acks, mac.data_rate), (3, false, Rate(10_000_000)));
        assert_eq!(mac.keys().mac(), mac);
    }
}
