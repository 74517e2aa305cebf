//! What is made from the list of loss models.

/// From the names of the files: the modules, the config enum with its schema, the process enum and
/// the short forms. In the file `bit_errors.rs` the settings are `BitErrors`, which a scenario file
/// selects with `model = "bit-errors"`.
macro_rules! loss_models {
    ($($module:ident,)*) => { pastey::paste! {
        $(
            mod $module;
            pub use $module::[<$module:camel>];
        )*

        /// How frames are lost on the air. A plain share ("1 %") means uniform loss.
        #[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
        #[serde(tag = "model", rename_all = "kebab-case", deny_unknown_fields)]
        #[allow(missing_docs, reason = "the settings document the variants")]
        pub enum LossConfig {
            /// No losses.
            #[default]
            None,
            /// Each frame is lost with the same probability, independently of its size.
            Uniform {
                /// Probability that a frame is lost.
                rate: Share,
                /// What addresses the draws.
                #[serde(default)]
                index: DrawIndex,
                /// Length of a slot, for `index = "slot"`.
                #[serde(default = "default_slot")]
                slot: Duration,
            },
            $([<$module:camel>]([<$module:camel>]),)*
        }

        $(impl From<[<$module:camel>]> for LossConfig {
            fn from(model: [<$module:camel>]) -> LossConfig {
                LossConfig::[<$module:camel>](model)
            }
        })*

        impl LossConfig {
            /// Length of the slots that address draws or clock the model, if it has such a setting.
            pub fn slot(&self) -> Option<Duration> {
                match *self {
                    LossConfig::None => None,
                    LossConfig::Uniform { rate, index, slot } => {
                        Uniform { rate, index, slot }.slot()
                    }
                    $(LossConfig::[<$module:camel>](ref model) => model.slot(),)*
                }
            }

            /// Checks whether the settings suit the losses of a single flow, which apply to packets
            /// at the destination node.
            ///
            /// # Errors
            ///
            /// A message that says why they do not.
            pub fn check_for_flow(&self) -> Result<(), String> {
                match *self {
                    LossConfig::None => Ok(()),
                    LossConfig::Uniform { rate, index, slot } => {
                        Uniform { rate, index, slot }.check_for_flow()
                    }
                    $(LossConfig::[<$module:camel>](ref model) => model.check_for_flow(),)*
                }
            }

            /// Reads a short form: "none", or a share ("1 %"), which means uniform loss.
            ///
            /// # Errors
            ///
            /// If the text has none of the short forms.
            pub fn short(text: &str) -> Result<LossConfig, String> {
                if text.trim() == "none" {
                    return Ok(LossConfig::None);
                }
                $(if let Some(model) = [<$module:camel>]::short(text) {
                    return model.map(LossConfig::from);
                })*
                Uniform::parse(text).map(LossConfig::from)
            }

            /// Every model once, with random settings made from the same numbers.
            pub fn samples(sample: &Sample<'_>) -> Vec<LossConfig> {
                let mut samples = vec![];
                samples.extend(Uniform::sample(&mut sample.clone()).map(LossConfig::from));
                $(samples.extend(
                    [<$module:camel>]::sample(&mut sample.clone()).map(LossConfig::from),
                );)*
                samples
            }
        }

        /// Decides for each frame whether it is lost.
        #[derive(Clone, Debug)]
        #[allow(missing_docs, reason = "the settings document the variants")]
        pub enum LossProcess {
            None,
            Uniform(<Uniform as LossModel>::Process),
            $([<$module:camel>](<[<$module:camel>] as LossModel>::Process),)*
        }

        impl LossProcess {
            /// The process of a link direction with this `name` ("server>phone"), which addresses
            /// the draws.
            ///
            /// # Errors
            ///
            /// If a value of the config is outside of its range.
            ///
            /// # Examples
            ///
            /// ```
            /// use lasthop_channel::air::loss::{Frame, LossConfig, LossProcess};
            /// use lasthop_core::segment::Segment;
            /// use lasthop_core::units::{Share, Time};
            ///
            /// let config = LossConfig::uniform(Share(0.1));
            /// let mut loss = LossProcess::new(&config, 1, "server>phone").unwrap();
            /// let segment = Segment::default();
            /// let lost = (0..10_000)
            ///     .filter(|&ordinal| {
            ///         let start = Time(ordinal * 12_000_000);
            ///         let segment = &segment;
            ///         loss.lost(&Frame { start, ordinal, bytes: 1500, mss: 1460, segment })
            ///     })
            ///     .count();
            /// assert!((900..1100).contains(&lost), "{lost}");
            /// ```
            pub fn new(config: &LossConfig, seed: u64, name: &str) -> Result<LossProcess, String> {
                Ok(match *config {
                    LossConfig::None => LossProcess::None,
                    LossConfig::Uniform { rate, index, slot } => {
                        LossProcess::Uniform(Uniform { rate, index, slot }.process(seed, name)?)
                    }
                    $(LossConfig::[<$module:camel>](ref model) => {
                        LossProcess::[<$module:camel>](model.process(seed, name)?)
                    })*
                })
            }

            /// True if this frame is lost. Call it once for each frame, in order of start.
            #[inline]
            pub fn lost(&mut self, frame: &Frame) -> bool {
                match self {
                    LossProcess::None => false,
                    LossProcess::Uniform(p) => p.lost(frame),
                    $(LossProcess::[<$module:camel>](p) => p.lost(frame),)*
                }
            }

            /// The end of a range of ordinals, from `ordinal` on, whose frames are not lost: `lost`
            /// need not be called for them.
            pub fn safe_until(&self, ordinal: u64) -> u64 {
                match self {
                    LossProcess::None => u64::MAX,
                    LossProcess::Uniform(p) => p.safe_until(ordinal),
                    $(LossProcess::[<$module:camel>](p) => p.safe_until(ordinal),)*
                }
            }

            /// True if the first `header` bytes of the last lost frame are intact.
            pub fn header_intact(&self, header: u32) -> bool {
                match self {
                    LossProcess::None => false,
                    LossProcess::Uniform(p) => p.header_intact(header),
                    $(LossProcess::[<$module:camel>](p) => p.header_intact(header),)*
                }
            }

            /// True if the model also applies to the control frames of a cell.
            #[inline]
            pub fn hits_control_frames(&self) -> bool {
                match self {
                    LossProcess::None => false,
                    LossProcess::Uniform(p) => p.hits_control_frames(),
                    $(LossProcess::[<$module:camel>](p) => p.hits_control_frames(),)*
                }
            }

            /// True if losses depend on the seed.
            pub fn is_random(&self) -> bool {
                match self {
                    LossProcess::None => false,
                    LossProcess::Uniform(p) => p.is_random(),
                    $(LossProcess::[<$module:camel>](p) => p.is_random(),)*
                }
            }
        }
    } };
}
