//! Web sessions: a user clicks, and each click requests a page.

use std::fmt;

use schemars::JsonSchema;
use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::network::{App, Flow, Network, Session};
use crate::text::errors::ScenarioError;
use crate::text::tree::{Path, Tree};
use lasthop_core::units::{Duration, Quantity, Size};

/// A user who clicks; each click requests a page.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
pub struct SessionSpec {
    /// The pages in order: the size of each, or a list of the sizes of its objects, which are
    /// requested at the same time. Each object has a separate connection.
    pub pages: Vec<PageSpec>,
    /// Time between two clicks. Either this or `think`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every: Option<Duration>,
    /// Time from the end of a page to the next click.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub think: Option<Duration>,
    /// If true, a click aborts the incomplete page before it. Default: false.
    #[serde(default)]
    pub abort: bool,
}

/// A page: its size, or the sizes of its objects, each of which has a separate connection.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum PageSpec {
    /// One object.
    One(Size),
    /// Several, requested at the same time.
    Objects(Vec<Size>),
}

impl PageSpec {
    /// The sizes of its objects.
    pub fn objects(&self) -> &[Size] {
        match self {
            PageSpec::One(size) => std::slice::from_ref(size),
            PageSpec::Objects(sizes) => sizes,
        }
    }
}

struct PageVisitor;

impl<'de> Visitor<'de> for PageVisitor {
    type Value = PageSpec;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the size of a page such as \"500 kB\", or a list of the sizes of its objects")
    }
    fn visit_str<E: Error>(self, text: &str) -> Result<PageSpec, E> {
        Size::parse(text).map(PageSpec::One).map_err(E::custom)
    }
    fn visit_f64<E: Error>(self, n: f64) -> Result<PageSpec, E> {
        Size::from_number(n).map(PageSpec::One).map_err(E::custom)
    }
    fn visit_i64<E: Error>(self, n: i64) -> Result<PageSpec, E> {
        self.visit_f64(n as f64)
    }
    fn visit_u64<E: Error>(self, n: u64) -> Result<PageSpec, E> {
        self.visit_f64(n as f64)
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<PageSpec, A::Error> {
        let mut sizes = Vec::new();
        while let Some(size) = list.next_element::<Size>()? {
            sizes.push(size);
        }
        if sizes.is_empty() {
            Err(A::Error::custom("a page has at least one object, found an empty list"))
        } else {
            Ok(PageSpec::Objects(sizes))
        }
    }
}

impl<'de> Deserialize<'de> for PageSpec {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<PageSpec, D::Error> {
        d.deserialize_any(PageVisitor)
    }
}

/// Checks the values of a session; `at` is the place of its table.
pub fn check(spec: &SessionSpec, at: &Path, tree: &Tree<'_>) -> Result<(), ScenarioError> {
    let SessionSpec { pages, every, think, abort } = spec;
    let conflict = |key: &str, message: &str| Err(tree.conflict(&at.at(key), message));
    let missing = |key: &str, message: &str| Err(tree.missing(&at.at(key), message));
    if pages.is_empty() {
        return missing("pages", "a session needs at least one page, such as pages = [\"500 kB\"]");
    }
    for (i, page) in pages.iter().enumerate() {
        if page.objects().iter().any(|size| size.is_zero()) {
            return Err(tree.wrong(&at.at("pages").at(i), "must be above 0"));
        }
    }
    match (every, think) {
        (Some(_), Some(_)) => conflict(
            "think",
            "`every` (from click to click) and `think` (from the end of a page to the next click) \
             exclude each other",
        ),
        (None, None) if pages.len() > 1 => missing(
            "pages",
            "when are the further clicks? write every = \"28 s\" (from click to click) or think = \
             \"28 s\" (from the end of a page)",
        ),
        (Some(Duration::ZERO), _) => Err(tree.wrong(&at.at("every"), "must be above 0 s")),
        (None, _) if *abort => conflict(
            "abort",
            "goes with `every`: without it a click comes when the page before is complete, and \
             nothing is left to break off",
        ),
        _ => Ok(()),
    }
}

/// Adds a session as transfers, one for each object of a page. `flow` has their common values and
/// the session's name.
pub fn add(
    network: &mut Network,
    flow: &Flow,
    spec: &SessionSpec,
    at: &Path,
    tree: &Tree<'_>,
) -> Result<(), ScenarioError> {
    let SessionSpec { pages, every, think, abort } = spec;
    let key = at.at("app").at("every");
    let mut session = Session { name: flow.name.clone(), pages: Vec::new(), think: *think };
    for (k, page) in pages.iter().enumerate() {
        let click = |k: usize| flow.start + every.unwrap_or_default() * k as u64;
        if k > 0 && every.is_some() {
            let late = |what: &str, end: Duration| {
                tree.wrong(
                    &key,
                    format!("page {} would be asked for at {}, {what} {end}", k + 1, click(k)),
                )
            };
            if click(k) >= network.duration {
                return Err(late("after the run ends at", network.duration));
            }
            if let Some(stop) = flow.stop.filter(|stop| click(k) >= *stop) {
                return Err(late("after the flow stops at", stop));
            }
        }
        let broken_off = (*abort && k + 1 < pages.len()).then(|| click(k + 1));
        let stop = [flow.stop, broken_off].into_iter().flatten().min();
        let first = network.flows.len();
        for (o, size) in page.objects().iter().enumerate() {
            let object =
                if page.objects().len() > 1 { format!(".{}", o + 1) } else { String::new() };
            let name = format!("{} {}{object}", session.name, k + 1);
            let app = App::Transfer { size: size.bytes(flow.segment).max(1) };
            network.flows.push(Flow { name, app, start: click(k), stop, ..flow.clone() });
        }
        session.pages.push(first..network.flows.len());
    }
    network.sessions.push(session);
    Ok(())
}
