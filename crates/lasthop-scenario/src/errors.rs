//! Errors in a scenario.

use std::fmt::{self, Write};

/// An error: where it is, which key, what was found and what is allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScenarioError {
    /// The place of the text.
    pub place: Place,
    /// The key, as `--set` names it ("link.radio.loss.rate"); empty if no key is the cause.
    pub key: String,
    /// What is wrong and what is allowed.
    pub message: String,
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
        f.write_str(&self.message)
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
