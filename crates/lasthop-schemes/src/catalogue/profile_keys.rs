//! The values of a profile as keys of a file: those of the TCP endpoints, and those that schemes
//! add.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::recovery::RecoveryKey;
use crate::shared::freeze;
use lasthop_core::units::{Duration, Size};
use lasthop_tcp::profile::*;

macro_rules! keys {
    ($($(#[$doc:meta])* $field:ident: $t:ty,)*) => {
        /// Keys of `[tcp]` and of a `[[flow]]` that change single values of the profile.
        #[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        pub struct ProfileKeys {
            /// The profile that gives every value not said here.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub profile: Option<ProfileName>,
            /// Loss recovery under a window rule that does not insist on its own.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub recovery: Option<RecoveryKey>,
            $(
                $(#[$doc])*
                #[serde(default, skip_serializing_if = "Option::is_none")]
                pub $field: Option<$t>,
            )*
            /// Longest time that a sender stays frozen after a notice that its last hop is down,
            /// unless a notice that it is up comes first; 0: it ignores these notices (TCP-F).
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub freeze: Option<Duration>,
        }

        impl ProfileKeys {
            /// Every value of a profile as a key, for a scenario with all defaults filled in.
            pub fn of(profile: &Profile) -> ProfileKeys {
                ProfileKeys {
                    profile: Some(profile.profile),
                    recovery: Some(profile.recovery.into()),
                    $($field: Some(profile.$field),)*
                    freeze: Some(freeze::time_of(profile)),
                }
            }

            /// `self`, with what it leaves open taken from `below`.
            pub fn over(&self, below: &ProfileKeys) -> ProfileKeys {
                ProfileKeys {
                    profile: self.profile.or(below.profile),
                    recovery: self.recovery.or(below.recovery),
                    $($field: self.$field.or(below.$field),)*
                    freeze: self.freeze.or(below.freeze),
                }
            }

            /// The whole profile.
            pub fn profile(&self) -> Profile {
                let mut p = Profile::named(self.profile.unwrap_or_default());
                if let Some(recovery) = self.recovery {
                    p.recovery = recovery.into();
                }
                $(if let Some(v) = self.$field { p.$field = v; })*
                if let Some(time) = self.freeze {
                    freeze::set(&mut p, time);
                }
                p
            }
        }
    };
}
lasthop_tcp::profile_fields!(keys);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::settings;

    #[test]
    fn keys_change_single_values_and_round_trip() {
        let keys: ProfileKeys = settings(
            "profile = \"ns-2.26\"\nmin_rto = \"0.2 s\"\ndelayed_ack = \"100 \
             ms\"\ninitial_ssthresh = \"8 segments\"",
        );
        let p = keys.profile();
        assert_eq!(p.min_rto, Duration::millis(200));
        assert_eq!(p.delayed_ack.limit(), Some(Duration::millis(100)));
        assert_eq!(p.initial_rto, Duration::secs(6));
        let value = serde_json::to_value(ProfileKeys::of(&p)).unwrap();
        let text = toml::to_string(&value).unwrap();
        assert_eq!(settings::<ProfileKeys>(&text).profile(), p);
    }

    #[test]
    fn the_key_of_a_scheme_sets_its_rule() {
        let keys: ProfileKeys = settings("freeze = \"3 s\"");
        let profile = keys.profile();
        assert_eq!(profile.notices.map(|n| n.time()), Some(Duration::secs(3)));
        assert_eq!(ProfileKeys::of(&profile).freeze, Some(Duration::secs(3)));
        let off: ProfileKeys = settings("freeze = \"0 s\"");
        assert_eq!(off.profile(), Profile::named(ProfileName::Linux));
    }
}
