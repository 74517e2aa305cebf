//! The values of a scenario with their places, in the file or on the command line.

use std::borrow::Cow;
use std::ops::Range;

use serde::de::DeserializeOwned;
use serde_json::Value as Json;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::errors::{ErrorKind, Place, ScenarioError};
use super::keys;
pub use super::path::{Path, Step};
use lasthop_core::diagnostics::Mistake;
use lasthop_schemes::catalogue::{ForeignSchemes, SchemeChoice, SchemeText};

/// A value of the tree with its place.
pub type Item<'a> = Spanned<DeValue<'a>>;

/// A text that contains values. The sources are numbered consecutively, so that a position
/// identifies its source.
#[derive(Clone, Debug)]
struct Source {
    /// Option and key; `None` is the file.
    option: Option<String>,
    start: usize,
}

/// The tree.
#[derive(Clone)]
pub struct Tree<'a> {
    root: Item<'a>,
    schemes: &'a dyn ForeignSchemes,
    name: String,
    text: &'a str,
    sources: Vec<Source>,
    end: usize,
}

/// Longer arrays are not searched for the wrong item.
const SEARCHED_ITEMS: usize = 200;

impl<'a> Tree<'a> {
    /// Parses a file; messages contain `name`. `schemes` are those that the catalogue lacks.
    pub fn parse(
        name: &str,
        text: &'a str,
        schemes: &'a dyn ForeignSchemes,
    ) -> Result<Tree<'a>, ScenarioError> {
        let tree = Tree {
            root: Spanned::new(0..0, DeValue::Table(DeTable::new())),
            schemes,
            name: name.to_string(),
            text,
            sources: vec![Source { option: None, start: 0 }],
            end: text.len() + 1,
        };
        match DeTable::parse(text) {
            Ok(table) => {
                Ok(Tree { root: Spanned::new(0..0, DeValue::Table(table.into_inner())), ..tree })
            }
            Err(e) => Err(ScenarioError {
                kind: Box::new(ErrorKind::Syntax { reason: e.message().to_string() }),
                place: e
                    .span()
                    .map_or_else(|| Place::Whole(tree.name.clone()), |span| tree.place(span.start)),
                key: String::new(),
                span: e.span(),
            }),
        }
    }

    /// The scheme that a text names.
    ///
    /// # Errors
    ///
    /// If there is no such scheme or setting; the message says what there is.
    pub fn scheme(&self, text: &SchemeText) -> Result<SchemeChoice, String> {
        SchemeChoice::from_text(text, self.schemes)
    }

    /// The name of the file.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Reads a value as in a file, quotes optional. `option` names it in messages.
    pub fn value(&mut self, option: &str, text: &'a str) -> Result<Item<'a>, ScenarioError> {
        let text = text.trim();
        let start = self.source(option, text.len());
        let mut item = match DeValue::parse(text) {
            Ok(item) => item,
            Err(e) if text.starts_with(['{', '[', '"', '\'']) => {
                let kind = ErrorKind::Text { reason: e.message().into(), text: text.into() };
                return Err(ScenarioError::of_option(option, kind));
            }
            Err(_) => Spanned::new(0..text.len(), DeValue::String(Cow::Borrowed(text))),
        };
        shift(&mut item, start);
        Ok(item)
    }

    /// A text as a value of the tree; `option` names it in messages.
    pub fn text_value(&mut self, option: &str, text: String) -> Item<'a> {
        let start = self.source(option, text.len());
        Spanned::new(start..start + text.len(), DeValue::String(Cow::Owned(text)))
    }

    fn source(&mut self, option: &str, length: usize) -> usize {
        let start = self.end;
        self.sources.push(Source { option: Some(option.to_string()), start });
        self.end += length + 1;
        start
    }

    /// The top-level table.
    pub fn root(&mut self) -> &mut DeTable<'a> {
        if !matches!(self.root.get_ref(), DeValue::Table(_)) {
            *self.root.get_mut() = DeValue::Table(DeTable::new());
        }
        match self.root.get_mut() {
            DeValue::Table(table) => table,
            _ => unreachable!("made a table above"),
        }
    }

    /// The value at a path.
    pub fn get(&self, path: &Path) -> Option<&Item<'a>> {
        walk(&self.root, &path.0)
    }

    /// The positions in the file; others are on the command line.
    pub fn file(&self) -> Range<usize> {
        0..self.text.len() + 1
    }

    /// Reads the whole tree as a `T`; a mistake is located at its key. `schema` is that of `T`.
    pub fn read<T: DeserializeOwned>(
        &self,
        schema: impl FnOnce() -> Json,
    ) -> Result<T, ScenarioError> {
        let attempt = |root: &Item<'a>| {
            T::deserialize(toml::de::ValueDeserializer::from(root.clone()))
                .map_err(|e| (e.message().to_string(), e.span()))
        };
        let (message, span) = match attempt(&self.root) {
            Ok(value) => return Ok(value),
            Err(e) => e,
        };
        let mut path = span.map(|s| self.path_of(&s)).unwrap_or_default();
        // Types that read a whole table before its parts lose the place. The wrong part is the one
        // without which the message would be different.
        while let Some(step) =
            self.culprit(&path, &message, |root| attempt(root).err().map(|e| e.0))
        {
            path = path.at(step);
        }
        let mut mistake = Mistake::from_serde(&message);
        let value = self.get(&path).map_or(self.root.get_ref(), |i| i.get_ref());
        if let (DeValue::Table(_), Some(Step::Key(key)), Mistake::WrongType { expected, .. }) =
            (value, path.0.last(), &mistake)
            && expected == "an array"
        {
            return Err(self.error(&path, ErrorKind::NeedsBrackets { key: key.clone() }));
        }
        // serde does not list the keys of a flattened table.
        if let Mistake::UnknownKey { key, allowed: allowed @ None } = &mut mistake {
            let above = path
                .0
                .split_last()
                .filter(|(last, _)| **last == Step::from(key.as_str()))
                .map_or(&path.0[..], |(_, above)| above);
            *allowed = Some(keys::below(&schema(), above));
        }
        Err(self.error(&path, mistake))
    }

    /// The part of the value at `path` without which the message would be different.
    fn culprit(
        &self,
        path: &Path,
        message: &str,
        failure: impl Fn(&Item<'a>) -> Option<String>,
    ) -> Option<Step> {
        let steps: Vec<Step> = match self.get(path)?.get_ref() {
            DeValue::Table(table) => {
                table.keys().map(|k| Step::Key(k.get_ref().to_string())).collect()
            }
            DeValue::Array(items) if items.len() <= SEARCHED_ITEMS => {
                (0..items.len()).map(Step::Index).collect()
            }
            _ => return None,
        };
        let (mut changed, mut required) = (Vec::new(), Vec::new());
        for step in steps {
            let mut root = self.root.clone();
            match (walk_mut(&mut root, &path.0)?.get_mut(), &step) {
                (DeValue::Table(table), Step::Key(key)) => drop(table.remove(key.as_str())),
                (DeValue::Array(items), Step::Index(i)) => {
                    *items = items
                        .iter()
                        .enumerate()
                        .filter(|(n, _)| n != i)
                        .map(|(_, item)| item.clone())
                        .collect()
                }
                _ => return None,
            }
            match (failure(&root), &step) {
                (Some(other), _) if other == message => {}
                // Any file without a required key fails like this: nothing follows about its value.
                (Some(other), Step::Key(key)) if is_missing(&other, key) => required.push(step),
                _ => changed.push(step),
            }
        }
        // The removal of a key that determines the meaning of others changes the message too; so a
        // part that the message names precedes.
        let unknown = match Mistake::from_serde(message) {
            Mistake::UnknownKey { key, .. } => Some(Step::Key(key)),
            _ => None,
        };
        let named = |step: &Step| unknown.as_ref() == Some(step);
        let quoted = |step: &Step| {
            walk(&self.root, &path.at(step.clone()).0).is_some_and(|item| quotes(message, item))
        };
        let spoken_of = changed.iter().find(|step| named(step) || quoted(step)).cloned();
        spoken_of
            .or(changed.into_iter().next())
            .or_else(|| required.into_iter().find(|step| quoted(step)))
    }

    /// An error about the value at `path`, or the nearest enclosing value if it does not exist.
    pub fn error(&self, path: &Path, kind: impl Into<ErrorKind>) -> ScenarioError {
        let span = (1..=path.0.len()).rev().find_map(|n| self.position(&path.0[..n]));
        let place = span.as_ref().map(|span| self.place(span.start));
        ScenarioError {
            kind: Box::new(kind.into()),
            place: place.unwrap_or_else(|| Place::Whole(self.name.clone())),
            key: self.show(path),
            span: span.filter(|span| self.in_file(span.start)),
        }
    }

    /// A value that its key does not allow.
    pub fn wrong(&self, path: &Path, words: impl Into<String>) -> ScenarioError {
        self.error(path, ErrorKind::Value(words.into()))
    }

    /// A value that contradicts another part of the scenario.
    pub fn conflict(&self, path: &Path, words: impl Into<String>) -> ScenarioError {
        self.error(path, ErrorKind::Conflict(words.into()))
    }

    /// A value that is missing.
    pub fn missing(&self, path: &Path, words: impl Into<String>) -> ScenarioError {
        self.error(path, ErrorKind::Missing(words.into()))
    }

    /// An error about the scenario as a whole.
    pub fn whole(&self, kind: ErrorKind) -> ScenarioError {
        ScenarioError {
            kind: Box::new(kind),
            place: Place::Whole(self.name.clone()),
            key: String::new(),
            span: None,
        }
    }

    /// The key (or the array item) at the end of the path.
    fn position(&self, steps: &[Step]) -> Option<Range<usize>> {
        let (last, above) = steps.split_last()?;
        match (walk(&self.root, above)?.get_ref(), last) {
            (DeValue::Table(table), Step::Key(key)) => {
                let (key, value) = table.get_key_value(key.as_str())?;
                // A key keeps its place in the file when the command line replaces its value; the
                // place of the value is the right one.
                Some(if self.in_file(value.span().start) { key.span() } else { value.span() })
            }
            (DeValue::Array(items), Step::Index(i)) => Some(items.get(*i)?.span()),
            _ => None,
        }
    }

    fn in_file(&self, position: usize) -> bool {
        position <= self.text.len()
    }

    fn place(&self, position: usize) -> Place {
        if self.in_file(position) {
            let (mut line, mut column) = (1, 1);
            for c in self.text.char_indices().take_while(|(i, _)| *i < position).map(|(_, c)| c) {
                (line, column) = if c == '\n' { (line + 1, 1) } else { (line, column + 1) };
            }
            return Place::File { name: self.name.clone(), line, column };
        }
        let source = self.sources.iter().rev().find(|s| s.start <= position);
        source
            .and_then(|s| s.option.clone())
            .map_or_else(|| Place::Whole(self.name.clone()), Place::Option)
    }

    /// The path as in `--set`: links, flows and nodes by name, array items from 1.
    fn show(&self, path: &Path) -> String {
        let mut words: Vec<String> = Vec::new();
        for (n, step) in path.0.iter().enumerate() {
            words.push(match step {
                Step::Key(key) => key.clone(),
                Step::Index(i) => {
                    let name = walk(&self.root, &path.0[..=n])
                        .and_then(|item| item.get_ref().get("name"))
                        .and_then(|name| name.get_ref().as_str());
                    name.map_or_else(|| (i + 1).to_string(), str::to_string)
                }
            });
        }
        words.join(".")
    }

    /// The path of the smallest key or value that covers `span`.
    fn path_of(&self, span: &Range<usize>) -> Path {
        fn search(item: &Item<'_>, path: &Path, span: &Range<usize>, best: &mut (usize, Path)) {
            let mut consider = |found: Range<usize>, path: &Path| {
                if found.start <= span.start && span.end <= found.end && found.len() <= best.0 {
                    *best = (found.len(), path.clone());
                }
            };
            if !path.0.is_empty() {
                consider(item.span(), path);
            }
            match item.get_ref() {
                DeValue::Table(table) => {
                    for (key, value) in table {
                        let path = path.at(key.get_ref().as_ref());
                        search(value, &path, span, best);
                        if key.span() == *span {
                            *best = (0, path);
                        }
                    }
                }
                DeValue::Array(items) => items
                    .iter()
                    .enumerate()
                    .for_each(|(i, item)| search(item, &path.at(i), span, best)),
                _ => {}
            }
        }
        let mut best = (usize::MAX, Path::default());
        search(&self.root, &Path::default(), span, &mut best);
        best.1
    }
}

fn walk<'t, 'a>(mut item: &'t Item<'a>, steps: &[Step]) -> Option<&'t Item<'a>> {
    for step in steps {
        item = match (item.get_ref(), step) {
            (DeValue::Table(table), Step::Key(key)) => table.get(key.as_str())?,
            (DeValue::Array(items), Step::Index(i)) => items.get(*i)?,
            _ => return None,
        };
    }
    Some(item)
}

fn walk_mut<'t, 'a>(mut item: &'t mut Item<'a>, steps: &[Step]) -> Option<&'t mut Item<'a>> {
    for step in steps {
        item = match (item.get_mut(), step) {
            (DeValue::Table(table), Step::Key(key)) => table.get_mut(key.as_str())?,
            (DeValue::Array(items), Step::Index(i)) => items.get_mut(*i)?,
            _ => return None,
        };
    }
    Some(item)
}

/// True if the message of serde says that the key is missing.
fn is_missing(message: &str, key: &str) -> bool {
    matches!(Mistake::from_serde(message), Mistake::MissingKey { key: missing } if missing == key)
}

/// True if the message quotes the value, or a part of it.
fn quotes(message: &str, item: &Item<'_>) -> bool {
    match item.get_ref() {
        DeValue::String(text) => {
            message.contains(&format!("\"{text}\"")) || message.contains(&format!("`{text}`"))
        }
        DeValue::Integer(n) => message.contains(n.as_str()),
        DeValue::Float(x) => message.contains(x.as_str()),
        DeValue::Boolean(b) => message.contains(if *b { "true" } else { "false" }),
        DeValue::Datetime(_) => false,
        DeValue::Array(items) => items.iter().any(|item| quotes(message, item)),
        DeValue::Table(table) => table.values().any(|item| quotes(message, item)),
    }
}

/// The table of an item.
pub fn table_mut<'t, 'a>(item: &'t mut Item<'a>) -> Option<&'t mut DeTable<'a>> {
    match item.get_mut() {
        DeValue::Table(table) => Some(table),
        _ => None,
    }
}

fn shift(item: &mut Item<'_>, by: usize) {
    let span = item.span();
    let mut value = std::mem::replace(item.get_mut(), DeValue::Boolean(false));
    match &mut value {
        DeValue::Table(table) => {
            *table = std::mem::take(table)
                .into_iter()
                .map(|(key, mut value)| {
                    shift(&mut value, by);
                    let span = key.span();
                    (Spanned::new(span.start + by..span.end + by, key.into_inner()), value)
                })
                .collect();
        }
        DeValue::Array(items) => items.iter_mut().for_each(|item| shift(item, by)),
        _ => {}
    }
    *item = Spanned::new(span.start + by..span.end + by, value);
}
