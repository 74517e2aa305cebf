//! The list of schemes, in the order of the catalogue.
//!
//! Each entry is the name of a file of this crate, and what of it is dispatched for each packet: a
//! `window` rule, an `agent`, or neither (a scheme of recovery, receiver or relay); `detector` if
//! it has a loss detector, the static `DETECTOR`, and `hints` if it has a response to hints of the
//! link layer, the static `HINTS`. In the file
//! `packet_control.rs` the settings are `PacketControl`, a window rule would be
//! `PacketControlWindow`, the agent is `PacketControlAgent`. A file with several schemes lists
//! their settings in brackets.

/// Calls a macro with the list.
macro_rules! with_schemes {
    ($callback:ident) => {
        $callback! {
            tahoe {},
            reno { window },
            newreno {},
            sack {},
            fack {},
            rack {},
            snack {},
            eifel {},
            f_rto {},
            ncr {},
            dcr {},
            vegas { window },
            veno { window },
            westwood { window },
            westwood_plus { window },
            tibet { window },
            ideal_bwe { window },
            tcp_real { window },
            wtcp { window },
            newreno_ff { window },
            santa_cruz { window },
            jtcp { window },
            jersey { window },
            casablanca { window },
            noor [NoorAer, NoorEaer] { window },
            selective_tcp { window },
            hack { agent },
            hack_fixed { hints },
            ewln {},
            tcp_eln { hints },
            esack { detector hints },
            lhp { agent detector },
            cubic { window },
            bbr { window },
            bbr3 { window },
            copa { window },
            prague { window },
            packet_control { agent },
            ack_pacing { agent },
            rate_control { agent },
            snoop { agent },
            snack_snoop {},
            balakrishnan_eln { agent hints },
            ll_elsn { agent },
            fastack { agent },
            zhuge { agent },
            tcp_f {},
            i_tcp {},
            mtcp { detector },
            m_tcp {},
            rnf { window agent },
        }
    };
}

/// The modules.
macro_rules! modules {
    ($($module:ident $([$($config:ident),*])? { $($part:ident)* },)*) => {
        $(pub mod $module;)*
    };
}

/// Calls `$callback! { Type in module, … }` with the settings of all schemes.
macro_rules! with_settings {
    ($callback:ident: [$($done:tt)*] $module:ident [$($config:ident),*] $parts:tt,
     $($rest:tt)*) => {
        with_settings! { $callback: [$($done)* $($config in $module,)*] $($rest)* }
    };
    ($callback:ident: [$($done:tt)*] $module:ident $parts:tt, $($rest:tt)*) => {
        pastey::paste! {
            with_settings! { $callback: [$($done)* [<$module:camel>] in $module,] $($rest)* }
        }
    };
    ($callback:ident: [$($done:tt)*]) => { $callback! { $($done)* } };
}

/// Calls `$callback! { module … }` with the modules that have a window rule.
macro_rules! with_windows {
    ($callback:ident: $done:tt $module:ident [$($config:tt)*] $parts:tt, $($rest:tt)*) => {
        with_windows! { $callback: $done $module $parts, $($rest)* }
    };
    ($callback:ident: [$($done:tt)*] $module:ident { window $($part:ident)* }, $($rest:tt)*) => {
        with_windows! { $callback: [$($done)* $module] $($rest)* }
    };
    ($callback:ident: $done:tt $module:ident $parts:tt, $($rest:tt)*) => {
        with_windows! { $callback: $done $($rest)* }
    };
    ($callback:ident: [$($done:tt)*]) => { $callback! { $($done)* } };
}

/// Calls `$callback! { module … }` with the modules that have an agent.
macro_rules! with_agents {
    ($callback:ident: $done:tt $module:ident [$($config:tt)*] $parts:tt, $($rest:tt)*) => {
        with_agents! { $callback: $done $module $parts, $($rest)* }
    };
    ($callback:ident: $done:tt $module:ident { window $($part:ident)* }, $($rest:tt)*) => {
        with_agents! { $callback: $done $module { $($part)* }, $($rest)* }
    };
    ($callback:ident: [$($done:tt)*] $module:ident { agent $($part:ident)* }, $($rest:tt)*) => {
        with_agents! { $callback: [$($done)* $module] $($rest)* }
    };
    ($callback:ident: $done:tt $module:ident $parts:tt, $($rest:tt)*) => {
        with_agents! { $callback: $done $($rest)* }
    };
    ($callback:ident: [$($done:tt)*]) => { $callback! { $($done)* } };
}

/// Calls `$callback! { module … }` with the modules that have a loss detector.
macro_rules! with_detectors {
    ($callback:ident: $done:tt $module:ident [$($config:tt)*] $parts:tt, $($rest:tt)*) => {
        with_detectors! { $callback: $done $module $parts, $($rest)* }
    };
    ($callback:ident: [$($done:tt)*] $module:ident { detector $($part:ident)* }, $($rest:tt)*) => {
        with_detectors! { $callback: [$($done)* $module] $($rest)* }
    };
    ($callback:ident: $done:tt $module:ident { $first:ident $($part:ident)* }, $($rest:tt)*) => {
        with_detectors! { $callback: $done $module { $($part)* }, $($rest)* }
    };
    ($callback:ident: $done:tt $module:ident {}, $($rest:tt)*) => {
        with_detectors! { $callback: $done $($rest)* }
    };
    ($callback:ident: [$($done:tt)*]) => { $callback! { $($done)* } };
}

/// Calls `$callback! { module … }` with the modules that have a response to hints of the link
/// layer.
macro_rules! with_hints {
    ($callback:ident: $done:tt $module:ident [$($config:tt)*] $parts:tt, $($rest:tt)*) => {
        with_hints! { $callback: $done $module $parts, $($rest)* }
    };
    ($callback:ident: [$($done:tt)*] $module:ident { hints }, $($rest:tt)*) => {
        with_hints! { $callback: [$($done)* $module] $($rest)* }
    };
    ($callback:ident: $done:tt $module:ident { $first:ident $($part:ident)* }, $($rest:tt)*) => {
        with_hints! { $callback: $done $module { $($part)* }, $($rest)* }
    };
    ($callback:ident: $done:tt $module:ident {}, $($rest:tt)*) => {
        with_hints! { $callback: $done $($rest)* }
    };
    ($callback:ident: [$($done:tt)*]) => { $callback! { $($done)* } };
}
