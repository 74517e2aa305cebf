//! Errors in a scenario.

use std::fmt::{self, Write};
use std::ops::Range;

use lasthop_core::diagnostics::{Mistake, hint};

/// An error: where it is, which key, what was found and what is allowed.
///
/// # Examples
///
/// ```
/// use std::io::{self, Read};
/// use std::path::Path;
///
/// use lasthop_core::diagnostics::Mistake;
/// use lasthop_scenario::{ErrorKind, Files, Overrides, load};
///
/// struct NoFiles;
///
/// impl Files for NoFiles {
///     fn open(&self, _path: &Path) -> io::Result<Box<dyn Read>> {
///         Err(io::ErrorKind::NotFound.into())
///     }
/// }
///
/// let text = "[last_hop]\nrtd = \"40 ms\"\n";
/// let Err(error) = load(text, None, &Overrides::default(), &NoFiles) else {
///     panic!("there is no key `rtd`");
/// };
/// assert_eq!(error.key, "last_hop.rtd");
/// assert_eq!(error.span.as_ref().map(|span| &text[span.clone()]), Some("rtd"));
/// assert!(error.allowed().iter().any(|key| key == "rtt"));
/// let ErrorKind::Mistake(Mistake::UnknownKey { key, .. }) = &*error.kind else {
///     panic!("another kind");
/// };
/// assert_eq!(key, "rtd");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScenarioError {
    /// What is wrong.
    pub kind: Box<ErrorKind>,
    /// The place of the text.
    pub place: Place,
    /// The path of the key, as `--set` names it ("link.radio.loss.rate"); empty if no key is the
    /// cause.
    pub key: String,
    /// The bytes of the file: those of the key, or of the item of an array. `None` if the error is
    /// not in the file.
    pub span: Option<Range<usize>>,
}

impl ScenarioError {
    /// An error of an option of the command line.
    pub(crate) fn of_option(option: &str, kind: impl Into<ErrorKind>) -> ScenarioError {
        ScenarioError {
            kind: Box::new(kind.into()),
            place: Place::Option(option.to_string()),
            key: String::new(),
            span: None,
        }
    }

    /// The keys, words or names that are allowed instead; empty if there is no list.
    pub fn allowed(&self) -> &[String] {
        self.kind.allowed()
    }
}

/// What is wrong with a scenario. [`Display`](fmt::Display) writes it as a sentence with what was
/// found and what is allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The file is not TOML.
    Syntax {
        /// The parser's words.
        reason: String,
    },
    /// The value of an option is not a value of TOML.
    Text {
        /// The parser's words.
        reason: String,
        /// The value.
        text: String,
    },
    /// A key or a word that does not exist, a missing key, or a value of another type.
    Mistake(Mistake),
    /// A table where an array of tables belongs.
    NeedsBrackets {
        /// The key.
        key: String,
    },
    /// Two tables with one name.
    DuplicateName {
        /// What they are: "link", "flow" …
        what: &'static str,
        /// The name.
        name: String,
    },
    /// Two schemes with one label.
    DuplicateLabel {
        /// The label.
        label: String,
    },
    /// A name occurs twice in a list.
    ListedTwice {
        /// What it names: "node", "station".
        what: &'static str,
        /// The name.
        name: String,
    },
    /// `--set` names a link, cell, flow or node that the scenario does not have.
    NoSuchItem {
        /// "link", "cell", "flow", "node", "station".
        what: String,
        /// Name or number.
        name: String,
        /// The names that exist (numbers for those without a name).
        known: Vec<String>,
    },
    /// A node that no link and no cell names.
    NoSuchNode {
        /// The name.
        name: String,
        /// The nodes.
        known: Vec<String>,
    },
    /// A node of `[[node]]` to which no link leads.
    NotLinked {
        /// The name.
        name: String,
        /// The nodes with links.
        known: Vec<String>,
    },
    /// A station that is not in its cell.
    NotAMember {
        /// The name.
        name: String,
        /// The members of the cell.
        members: Vec<String>,
    },
    /// Two keys of which only one may be given.
    Exclusive {
        /// One key.
        first: &'static str,
        /// The other key.
        second: &'static str,
    },
    /// A flow between nodes that no route connects.
    NoRoute {
        /// The sender of data.
        from: String,
        /// The receiver.
        to: String,
    },
    /// A scheme that works at a node with a role that no node on the path has.
    NoRole {
        /// The scheme.
        scheme: String,
        /// The role, as in a file ("base-station").
        role: String,
        /// True if a wireless link would give the role to one of its ends.
        of_radio: bool,
        /// Start of the path.
        from: String,
        /// End of the path.
        to: String,
    },
    /// A value that its key does not allow, in words.
    Value(String),
    /// Parts of the scenario that contradict each other, in words.
    Conflict(String),
    /// Something that the scenario needs is missing, in words.
    Missing(String),
    /// A scheme or a setting of it that does not exist or is not allowed, in words.
    Scheme(String),
    /// A trace that cannot be read, in words.
    Trace(String),
    /// An option of the command line that this scenario cannot take, in words.
    Option(String),
}

impl ErrorKind {
    /// The keys, words or names that are allowed instead; empty if there is no list.
    pub fn allowed(&self) -> &[String] {
        match self {
            ErrorKind::Mistake(mistake) => mistake.allowed(),
            ErrorKind::NoSuchItem { known, .. }
            | ErrorKind::NoSuchNode { known, .. }
            | ErrorKind::NotLinked { known, .. }
            | ErrorKind::NotAMember { members: known, .. } => known,
            _ => &[],
        }
    }
}

impl From<Mistake> for ErrorKind {
    fn from(mistake: Mistake) -> ErrorKind {
        ErrorKind::Mistake(mistake)
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hint = |name: &str, known: &[String]| hint(name, known.iter().map(String::as_str));
        let list = |known: &[String]| match known {
            [] => "none".to_string(),
            _ => known.join(", "),
        };
        match self {
            ErrorKind::Syntax { reason } => write!(f, "not valid TOML: {reason}"),
            ErrorKind::Text { reason, text } => {
                write!(f, "not a valid value: {reason}, found {text}")
            }
            ErrorKind::Mistake(mistake) => mistake.fmt(f),
            ErrorKind::NeedsBrackets { key } => {
                write!(f, "expected an array of tables: write [[{key}]] with two brackets")
            }
            ErrorKind::DuplicateName { what, name } => {
                write!(f, "two {what}s are called `{name}`")
            }
            ErrorKind::DuplicateLabel { label } => write!(
                f,
                "two schemes have the label \"{label}\"; give one of them another: label = \
                 \"{label} (2)\""
            ),
            ErrorKind::ListedTwice { what, name } => {
                write!(f, "the {what} `{name}` is listed twice")
            }
            ErrorKind::NoSuchItem { what, name, known } if known.is_empty() && what == "link" => {
                write!(
                    f,
                    "the scenario has no [[link]] `{name}`; its last hop is set by \
                     `last_hop.rate`, `last_hop.rtt`, `last_hop.loss` …"
                )
            }
            ErrorKind::NoSuchItem { what, name, known } => write!(
                f,
                "there is no {what} `{name}`{}; the scenario has: {}",
                hint(name, known),
                list(known)
            ),
            ErrorKind::NoSuchNode { name, known } => {
                let hint = hint(name, known);
                write!(f, "there is no node `{name}`{hint}; nodes: {}", known.join(", "))
            }
            ErrorKind::NotLinked { name, known } => {
                write!(f, "no link leads to the node `{name}`{}", hint(name, known))
            }
            ErrorKind::NotAMember { name, members } => write!(
                f,
                "the node `{name}` is no member of this cell{}; members: {}",
                hint(name, members),
                members.join(", ")
            ),
            ErrorKind::Exclusive { first, second } => {
                write!(f, "`{first}` and `{second}` exclude each other")
            }
            ErrorKind::NoRoute { from, to } => {
                write!(f, "no route leads from `{from}` to `{to}`")
            }
            ErrorKind::NoRole { scheme, role, of_radio, from, to } => write!(
                f,
                "the scheme `{scheme}` needs a node with the role {role} on the path from \
                 `{from}` to `{to}`, and there is none; {}write [[node]] name = \"…\", role = \
                 \"{role}\"",
                if *of_radio { "mark the wireless link with radio = true, or " } else { "" }
            ),
            ErrorKind::Value(words)
            | ErrorKind::Conflict(words)
            | ErrorKind::Missing(words)
            | ErrorKind::Scheme(words)
            | ErrorKind::Trace(words)
            | ErrorKind::Option(words) => f.write_str(words),
        }
    }
}

/// The place of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// In the scenario file; line and column count from 1.
    File {
        /// The file's name.
        name: String,
        /// Line.
        line: usize,
        /// Column in characters.
        column: usize,
    },
    /// On the command line: the option with its key ("--set link.radio.rate", "--loss").
    Option(String),
    /// The scenario as a whole: something is missing, or two parts contradict each other.
    Whole(String),
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut f = Escaped(f);
        match &self.place {
            Place::File { name, line, column } => write!(f, "{name}:{line}:{column}: ")?,
            Place::Option(option) => write!(f, "{option}: ")?,
            Place::Whole(name) => write!(f, "{name}: ")?,
        }
        // The place contains the key already.
        let key = format!(" {}", self.key);
        let named = matches!(&self.place, Place::Option(option) if option.ends_with(&key));
        if !self.key.is_empty() && !named {
            write!(f, "{}: ", self.key)?;
        }
        write!(f, "{}", self.kind)
    }
}

impl std::error::Error for ScenarioError {}

/// Escapes control characters, because the text comes from the file and is printed to a terminal.
struct Escaped<'a, 'b>(&'a mut fmt::Formatter<'b>);

impl Write for Escaped<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        text.chars().try_for_each(|c| {
            if c.is_control() {
                write!(self.0, "{}", c.escape_debug())
            } else {
                self.0.write_char(c)
            }
        })
    }
}
