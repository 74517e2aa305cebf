//! Settings of a cell of 802.11n, 802.11ac or 802.11ax: PHY, access category and aggregation.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::mac::MacName;
use super::phy::{Generation, LONGEST_PPDU, Phy, Width};
use lasthop_core::units::{Duration, Size};

/// An access category of EDCA (802.11-2020, table 10-1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum AccessCategory {
    /// Background.
    #[serde(rename = "BK")]
    Background,
    /// Best effort.
    #[default]
    #[serde(rename = "BE")]
    BestEffort,
    /// Video.
    #[serde(rename = "VI")]
    Video,
    /// Voice.
    #[serde(rename = "VO")]
    Voice,
}

impl AccessCategory {
    /// AIFSN, smallest and largest contention window, and TXOP limit: the default EDCA parameter
    /// set of an OFDM PHY with aCWmin = 15 and aCWmax = 1023 (802.11-2020, table 9-155; the limit
    /// of BE and BK is 0, one exchange, as in 802.11-2012 and in access points' own parameters).
    pub fn parameters(self) -> (u32, u32, u32, Duration) {
        match self {
            AccessCategory::Background => (7, 15, 1023, Duration::ZERO),
            AccessCategory::BestEffort => (3, 15, 1023, Duration::ZERO),
            AccessCategory::Video => (2, 7, 15, Duration::micros(3_008)),
            AccessCategory::Voice => (2, 3, 7, Duration::micros(1_504)),
        }
    }
}

/// Which receiver a station sends to next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Scheduling {
    /// The receiver of the frame that has waited longest. A DropTail queue has one limit for all
    /// receivers.
    #[default]
    Fifo,
    /// Deficit round-robin by air time, as in mac80211: each receiver has a queue with its
    /// limit, and gets the same share of the medium.
    Airtime,
}

/// How stations choose the MCS of data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RateRule {
    /// It is that of the file.
    #[default]
    Fixed,
    /// The fastest MCS with which at most 1 % of full-sized packets have errors at the SNR of the
    /// station. It goes with `snr_db`.
    Ideal,
    /// By trial, as Linux does it. It goes with `snr_db`.
    MinstrelHt,
}

macro_rules! wifi {
    ($($(#[$doc:meta])* $field:ident: $t:ty,)*) => {
        /// The settings of 802.11n, 802.11ac and 802.11ax.
        #[derive(Clone, Debug, PartialEq)]
        pub struct Wifi {
            /// Generation of the PHY.
            pub generation: Generation,
            $($(#[$doc])* pub $field: $t,)*
        }

        /// Keys of a `[[cell]]` with mac = "802.11n", "802.11ac" or "802.11ax".
        #[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        pub struct WifiKeys {
            $(
                $(#[$doc])*
                #[serde(default, skip_serializing_if = "Option::is_none")]
                pub $field: Option<$t>,
            )*
        }

        impl WifiKeys {
            /// The first key that the file sets.
            pub fn first(&self) -> Option<&'static str> {
                $(if self.$field.is_some() { return Some(stringify!($field)); })*
                None
            }

            /// All values; `None` for other kinds of cells.
            pub fn wifi(&self, mac: MacName) -> Option<Wifi> {
                let category = self.access_category.unwrap_or_default();
                let mut wifi = Wifi::new(mac.generation()?, category);
                $(if let Some(v) = self.$field { wifi.$field = v; })*
                Some(wifi)
            }
        }

        impl Wifi {
            /// Every value as a key, for a scenario with all defaults filled in.
            pub fn keys(&self) -> WifiKeys {
                WifiKeys { $($field: Some(self.$field),)* }
            }
        }
    };
}

wifi! {
    /// Width of the channel: "20 MHz", "40 MHz", "80 MHz" or "160 MHz". Default: "20 MHz"
    /// ("802.11ac" and "802.11ax": "80 MHz").
    width: Width,
    /// Number of spatial streams. Default: 1.
    streams: u32,
    /// Modulation and coding scheme (MCS) of data, per spatial stream: 0 to 7 ("802.11ac": 9,
    /// "802.11ax": 11). Default: 7.
    mcs: u32,
    /// Guard interval between symbols: "0.4 us" or "0.8 us" ("802.11ax": "0.8 us", "1.6 us" or
    /// "3.2 us"). Default: 0.8 us.
    guard_interval: Duration,
    /// Access category (EDCA) of all frames: "BE", "BK", "VI" or "VO". It gives the defaults of
    /// aifsn, cw_min, cw_max and txop_limit. Default: "BE".
    access_category: AccessCategory,
    /// Slots of the arbitration interframe space, which follow SIFS. Default: 3 ("BK": 7, "VI" and
    /// "VO": 2).
    aifsn: u32,
    /// Longest time for which a station that has won the medium may send several frames or
    /// aggregates; 0: one. Default: 0 s ("VI": 3.008 ms, "VO": 1.504 ms).
    txop_limit: Duration,
    /// Longest aggregate of MPDUs (A-MPDU); 0 B: none. Default: 65535 B ("802.11ac": 1048575 B,
    /// "802.11ax": 4194303 B).
    ampdu: Size,
    /// Longest aggregate of packets in one MPDU (A-MSDU); 0 B: none. Default: 0 B.
    amsdu: Size,
    /// MPDUs in the window of the block acknowledgement, at most 256 ("802.11n" and "802.11ac":
    /// 64). Default: the largest.
    block_ack_window: u32,
    /// Whether an MPDU in a block acknowledgement session is discarded after `attempts`, as drivers
    /// do; false: it is sent until it is acknowledged, since 802.11-2020 does not count its
    /// retries. Default: true.
    block_ack_retry_limit: bool,
    /// Longest transmission of data. Default: 5.484 ms.
    ppdu_limit: Duration,
    /// Interval of the beacons of the first member, the access point; 0: none. Default: 102.4 ms.
    beacon_interval: Duration,
    /// Which receiver a station sends to next. Default: "fifo".
    scheduling: Scheduling,
    /// Air time of packets that have left the queue for a receiver and are not acknowledged, above
    /// which no more leave it (AQL, as mac80211 has it with 5 ms); 0: packets stay in the queue
    /// until they are sent. Default: 0 s.
    airtime_queue_limit: Duration,
    /// How stations choose the MCS: "fixed"; by `snr_db`, "ideal"; or by trial, "minstrel-ht".
    /// Default: "fixed".
    rate_rule: RateRule,
    /// Transmissions without an answer in sequence after which the rules "fixed" and "ideal" take
    /// the next slower MCS, until there is an answer; 0: never. Default: 0.
    fallback: u32,
}

impl Wifi {
    /// The defaults of a generation.
    pub fn new(generation: Generation, access_category: AccessCategory) -> Wifi {
        let (aifsn, _, _, txop_limit) = access_category.parameters();
        let (width, ampdu, block_ack_window) = match generation {
            Generation::Ht => (Width::Mhz20, 65_535, 64),
            Generation::Vht => (Width::Mhz80, 1_048_575, 64),
            Generation::He => (Width::Mhz80, 4_194_303, 256),
        };
        Wifi {
            generation,
            width,
            streams: 1,
            mcs: 7,
            guard_interval: Duration(800),
            access_category,
            aifsn,
            txop_limit,
            ampdu: Size::Bytes(ampdu),
            amsdu: Size::Bytes(0),
            block_ack_window,
            block_ack_retry_limit: true,
            ppdu_limit: LONGEST_PPDU,
            beacon_interval: Duration::micros(102_400),
            scheduling: Scheduling::Fifo,
            airtime_queue_limit: Duration::ZERO,
            rate_rule: RateRule::Fixed,
            fallback: 0,
        }
    }

    /// Attempts after which an MPDU is discarded, if it is discarded after `attempts` without a
    /// block acknowledgement session.
    pub fn retry_limit(&self, attempts: u32) -> u32 {
        let has_sessions = self.ampdu.bytes(1) > 0 && self.block_ack_window > 1;
        if has_sessions && !self.block_ack_retry_limit { u32::MAX } else { attempts }
    }

    /// How data to or from a station with this MCS are sent.
    pub fn phy(&self, mcs: u32) -> Phy {
        Phy {
            generation: self.generation,
            width: self.width,
            streams: self.streams,
            mcs,
            guard: self.guard_interval,
        }
    }

    /// Checks the values.
    ///
    /// # Errors
    ///
    /// The key and a message that states what is allowed.
    pub fn check(&self) -> Result<(), (&'static str, String)> {
        self.phy(self.mcs).check()?;
        let most = if self.generation == Generation::He { 256 } else { 64 };
        if !(1..=most).contains(&self.block_ack_window) {
            let message =
                format!("must lie between 1 and {most} MPDUs, found {}", self.block_ack_window);
            return Err(("block_ack_window", message));
        }
        if !(1..=15).contains(&self.aifsn) {
            return Err(("aifsn", format!("must lie between 1 and 15, found {}", self.aifsn)));
        }
        if !(Duration::micros(100)..=LONGEST_PPDU).contains(&self.ppdu_limit) {
            let message =
                format!("must lie between 100 us and {LONGEST_PPDU}, found {}", self.ppdu_limit);
            return Err(("ppdu_limit", message));
        }
        // An unsigned number of 16 bits in units of 32 µs (802.11-2020, 9.4.2.28).
        if self.txop_limit > Duration::micros(32 * 65_535) {
            return Err((
                "txop_limit",
                format!("must be at most 2.1 s, found {}", self.txop_limit),
            ));
        }
        // A-MSDUs have at most 11454 bytes (802.11-2020, table 9-34).
        if self.amsdu.bytes(1) > 11_454 {
            return Err(("amsdu", "must be at most 11454 B".into()));
        }
        // The longest PSDU of HE (802.11ax-2021, table 27-53).
        if self.ampdu.bytes(1) > 6_500_631 {
            return Err(("ampdu", "must be at most 6500631 B".into()));
        }
        if self.beacon_interval > Duration::ZERO && self.beacon_interval < Duration::millis(1) {
            let message = format!("must be 0 s or at least 1 ms, found {}", self.beacon_interval);
            return Err(("beacon_interval", message));
        }
        Ok(())
    }
}
