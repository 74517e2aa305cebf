//! The senders and receivers used by the targets: every scheme and recovery under every profile.

use std::sync::LazyLock;

use lasthop::schemes::catalogue::{SchemeChoice, SenderPart, all};
use lasthop::segment::{Options, Segment};
use lasthop::tcp::profile::{Profile, ProfileName};
use lasthop::tcp::sender::{Output, SendReason};

use crate::input::Input;

const PROFILES: [ProfileName; 6] = [
    ProfileName::Linux,
    ProfileName::Rfc,
    ProfileName::Ns226,
    ProfileName::Ns227,
    ProfileName::Ns230,
    ProfileName::Ns235,
];

/// Recovery methods that no scheme uses by default.
const RECOVERIES: [&str; 18] = [
    "tahoe",
    "reno",
    "newreno+eifel",
    "newreno+eifel-original",
    "newreno+fine-timer",
    "newreno+f-rto",
    "reno+ncr",
    "sack+ncr-aggressive",
    "sack+dcr",
    "sack+prr+dsack-undo",
    "sack+elsn",
    "sack+eln-shield",
    "newreno+eln-trust",
    "sack-ns2",
    "fack+f-rto",
    "rack+prr+eifel",
    "packet-list+smart",
    "selective-repeat+timer=4",
];

/// A scheme under a profile.
pub(crate) struct Variant {
    pub(crate) choice: SchemeChoice,
    pub(crate) part: SenderPart,
    /// The profile with the changes of the scheme.
    pub(crate) profile: Profile,
    /// The unchanged profile.
    pub(crate) base: Profile,
}

static VARIANTS: LazyLock<Vec<Variant>> = LazyLock::new(|| {
    let names = all().into_iter().map(|s| s.name().to_string());
    let rules = ["reno", "cubic"];
    let set = rules.iter().flat_map(|r| RECOVERIES.map(|k| format!("{r}:recovery={k}")));
    let choices = names.chain(set).map(|text| SchemeChoice::parse(&text).expect("a scheme"));
    let variant = |choice: &SchemeChoice, name| {
        let base = Profile::named(name);
        let part = choice.sender(&base);
        Variant { choice: choice.clone(), profile: part.profile(&base), base, part }
    };
    choices.flat_map(|c| PROFILES.map(|name| variant(&c, name))).collect()
});

/// Selects a variant by two bytes of the input.
pub(crate) fn variant(input: &mut Input<'_>) -> &'static Variant {
    input.choose(&VARIANTS)
}

/// The variants whose scheme has a relay.
pub(crate) fn relays() -> &'static [&'static Variant] {
    static RELAYS: LazyLock<Vec<&'static Variant>> =
        LazyLock::new(|| VARIANTS.iter().filter(|v| v.choice.scheme.relay().is_some()).collect());
    &RELAYS
}

/// Collects the segments that an endpoint sends.
#[derive(Default)]
pub(crate) struct Sent(pub(crate) Vec<(Segment, Options)>);

impl Output for Sent {
    fn send(&mut self, segment: Segment, reason: SendReason) {
        self.send_with(segment, &Options::NONE, reason);
    }

    fn send_with(&mut self, segment: Segment, options: &Options, _: SendReason) {
        self.0.push((segment, *options));
    }
}
