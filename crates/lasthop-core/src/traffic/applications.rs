//! What is made from the list of kinds of applications.

/// The list of kinds, in the order of the schema: passes the names of their files to a macro.
#[macro_export]
macro_rules! applications {
    ($receiver:ident) => {
        $receiver! { web, on_off, cbr, call, ping, media, pareto, pareto_on_off }
    };
}

/// A text in which the underscores of names are the hyphens of scenario files.
#[doc(hidden)]
#[macro_export]
macro_rules! with_hyphens {
    ($text:expr) => {{
        const TEXT: &str = $text;
        const BYTES: [u8; TEXT.len()] = {
            let mut bytes = [0; TEXT.len()];
            let mut i = 0;
            while i < bytes.len() {
                let byte = TEXT.as_bytes()[i];
                bytes[i] = if byte == b'_' { b'-' } else { byte };
                i += 1;
            }
            bytes
        };
        const HYPHENS: &str = match std::str::from_utf8(&BYTES) {
            Ok(text) => text,
            Err(_) => TEXT,
        };
        HYPHENS
    }};
}

/// From the names of the files: the modules, the enum of applications and that of their processes.
/// In the file `on_off.rs` the settings are `OnOff`, which a scenario file selects with `kind =
/// "on-off"`.
macro_rules! define {
    ($($module:ident),*) => { pastey::paste! {
        $(
            mod $module;
            pub use $module::[<$module:camel>];
        )*

        /// The traffic model of an application.
        #[derive(Clone, Debug, PartialEq)]
        #[allow(missing_docs, reason = "the settings document the variants")]
        pub enum App {
            /// Unlimited data.
            Bulk,
            /// One transfer of a fixed size.
            Transfer {
                /// Payload bytes.
                size: u64,
            },
            /// Transfers that arrive as a Poisson process, each over its own connection. A run
            /// replaces it with the transfers that arrive with its seed.
            Poisson {
                /// Sizes of the transfers.
                sizes: Sizes,
                /// Mean time between two arrivals.
                mean_gap: Duration,
            },
            /// A client that requests one response after another over one connection.
            Requests {
                /// Payload of a request, bytes.
                request: u32,
                /// Sizes of the responses.
                sizes: Sizes,
                /// Mean of the exponential time between the end of a response and the next request;
                /// 0 for none.
                mean_think: Duration,
            },
            /// Adaptive video: a client that requests one chunk after another over one connection.
            Video {
                /// Payload of a request, bytes.
                request: u32,
                /// The video and its player.
                video: Video,
            },
            $([<$module:camel>]([<$module:camel>]),)*
            /// Datagrams that a protocol stack outside lasthop sends, at both ends. No scenario
            /// file has it: a host puts it in the place of a flow's application.
            External,
        }

        $(impl From<[<$module:camel>]> for App {
            fn from(settings: [<$module:camel>]) -> App {
                App::[<$module:camel>](settings)
            }
        })*

        impl App {
            /// Name of the kind in scenario files. An object of a web session is a transfer.
            pub fn kind(&self) -> &'static str {
                match self {
                    App::Bulk => "bulk",
                    App::Transfer { .. } => "transfer",
                    App::Poisson { .. } => "poisson",
                    App::Requests { .. } => "requests",
                    App::Video { .. } => "video",
                    $(App::[<$module:camel>](_) => with_hyphens!(stringify!($module)),)*
                    App::External => "external",
                }
            }

            /// True if it sends datagrams, and not over TCP.
            pub fn is_datagrams(&self) -> bool {
                match self {
                    $(App::[<$module:camel>](_) => {
                        <[<$module:camel>] as Application>::IS_DATAGRAMS
                    })*
                    other => *other == App::External,
                }
            }

            /// What datagrams it sends, before their mean rate: "datagrams at".
            pub fn datagrams(&self) -> &'static str {
                match self {
                    $(App::[<$module:camel>](_) => <[<$module:camel>] as Application>::DATAGRAMS,)*
                    _ => "",
                }
            }

            /// Mean rate of the payload, bit/s; infinite if the path limits it.
            pub fn rate(&self, segment: u32) -> f64 {
                match self {
                    $(App::[<$module:camel>](app) => app.rate(segment),)*
                    _ => f64::INFINITY,
                }
            }

            /// Segments or datagrams that it sends in a number of seconds; see
            /// [`Application::segments`]. Infinite if the path limits it, 0 for an external stack.
            pub fn segments(&self, through: f64, seconds: f64, segment: u32) -> f64 {
                match self {
                    $(App::[<$module:camel>](app) => app.segments(through, seconds, segment),)*
                    App::External => 0.0,
                    _ => f64::INFINITY,
                }
            }

            /// True if the receiver sends datagrams too.
            pub fn is_answered(&self) -> bool {
                match self {
                    $(App::[<$module:camel>](_) => {
                        <[<$module:camel>] as Application>::IS_ANSWERED
                    })*
                    other => *other == App::External,
                }
            }

            /// True if what it does depends on when data arrive.
            pub fn waits_for_delivery(&self) -> bool {
                match self {
                    $(App::[<$module:camel>](_) => {
                        <[<$module:camel>] as Application>::WAITS_FOR_DELIVERY
                    })*
                    other => other.request().is_some(),
                }
            }

            /// What is measured of its user; nothing here of clients, whose requests are measured.
            pub fn quality(&self) -> Option<Quality> {
                match self {
                    $(App::[<$module:camel>](app) => app.quality(),)*
                    _ => None,
                }
            }

            /// True for unlimited data, whose delay is measured from the first transmission, not
            /// from the write.
            pub fn is_endless(&self) -> bool {
                match self {
                    $(App::[<$module:camel>](app) => app.is_endless(),)*
                    other => *other == App::Bulk,
                }
            }

            /// True if the traffic model uses random draws.
            pub fn is_random(&self) -> bool {
                match self {
                    $(App::[<$module:camel>](_) => <[<$module:camel>] as Application>::IS_RANDOM,)*
                    App::Poisson { .. } => true,
                    App::Requests { sizes, mean_think, .. } => {
                        *mean_think > Duration::ZERO || !matches!(sizes, Sizes::Constant(_))
                    }
                    App::Bulk | App::Transfer { .. } | App::Video { .. } | App::External => false,
                }
            }
        }

        /// The application of a flow at work.
        #[derive(Clone, Debug)]
        enum Running {
            /// Writes all data at once; those of a finite transfer, or without end.
            Writer(Option<u64>),
            /// Boxed, as it is the largest: a flow has one of these.
            Client(Box<Client>),
            $([<$module:camel>](<[<$module:camel>] as Application>::Process),)*
            /// Nothing happens by its timer.
            Passive,
        }

        impl Running {
            fn new(app: &App, segment: u32, seed: u64, name: &str) -> Running {
                match app {
                    App::Bulk => Running::Writer(None),
                    App::Transfer { size } => Running::Writer(Some(*size)),
                    App::Requests { request, sizes, mean_think } => {
                        let responses = (sizes, *mean_think);
                        let client = Client::for_responses(responses, *request, seed, name);
                        Running::Client(Box::new(client))
                    }
                    App::Video { request, video } => {
                        Running::Client(Box::new(Client::for_video(video, *request)))
                    }
                    $(App::[<$module:camel>](app) => {
                        let draws = Stream::new(seed, &format!("traffic {name}"));
                        Running::[<$module:camel>](app.process(segment, draws))
                    })*
                    // Each transfer of a process is a separate flow; an external stack has its own
                    // timers.
                    App::Poisson { .. } | App::External => Running::Passive,
                }
            }

            /// See [`Process::fire`].
            fn fire(&mut self, now: Time) -> (Option<Do>, Option<Time>) {
                match self {
                    $(Running::[<$module:camel>](process) => process.fire(now),)*
                    Running::Writer(_) | Running::Client(_) | Running::Passive => (None, None),
                }
            }

            /// See [`Process::delivered`].
            fn delivered(&mut self, now: Time) -> Option<Time> {
                match self {
                    $(Running::[<$module:camel>](process) => process.delivered(now),)*
                    Running::Writer(_) | Running::Client(_) | Running::Passive => None,
                }
            }
        }
    } };
}
