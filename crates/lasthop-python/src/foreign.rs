//! Schemes written in Python: what a class says of itself, and classes that a scenario names.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Arc;

use lasthop::schemes::catalogue::{ForeignSchemes, Scheme, SchemeChoice};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyType};
use serde_json::{Map, Value};

use crate::foreign_agent::AgentClass;
use crate::foreign_run::RunContext;
use crate::foreign_window::WindowClass;

/// A scheme in Python: a subclass of `lasthop.CongestionControl` or `lasthop.Agent`.
pub struct ForeignScheme {
    class: Py<PyType>,
    name: String,
    /// Name in reports.
    label: String,
    settings: Map<String, Value>,
    kind: Kind,
}

enum Kind {
    Window(WindowClass),
    Agent(AgentClass),
}

impl ForeignScheme {
    /// Reads what `lasthop.own_schemes.describe` says of the class.
    ///
    /// # Errors
    ///
    /// `InputError` if `class` is not a scheme or an attribute of it is wrong.
    pub fn new(class: &Bound<'_, PyType>) -> PyResult<ForeignScheme> {
        let described =
            class.py().import("lasthop.own_schemes")?.call_method1("describe", (class,))?;
        let described = described.cast_into::<PyDict>()?;
        let get = |key: &str| {
            described.get_item(key)?.ok_or_else(|| PyValueError::new_err(format!("no `{key}`")))
        };
        let settings: String = get("settings")?.extract()?;
        let hooks: BTreeSet<String> = get("hooks")?.extract()?;
        let kind = match get("kind")?.extract::<String>()?.as_str() {
            "window" => Kind::Window(WindowClass::new(class, hooks)?),
            _ => Kind::Agent(AgentClass::new(class, hooks)?),
        };
        Ok(ForeignScheme {
            class: class.clone().unbind(),
            name: get("name")?.extract()?,
            label: get("label")?.extract()?,
            settings: serde_json::from_str(&settings).unwrap_or_default(),
            kind,
        })
    }

    /// The class.
    pub fn class(&self, py: Python<'_>) -> Py<PyType> {
        self.class.clone_ref(py)
    }

    /// The scheme, with its label, whose objects belong to `run`.
    pub fn choice(&self, py: Python<'_>, run: &Arc<RunContext>) -> SchemeChoice {
        let class = self.class.clone_ref(py);
        let (name, settings) = (self.name.clone(), self.settings.clone());
        let scheme = match &self.kind {
            Kind::Window(kind) => Scheme::ForeignWindow(kind.scheme(class, name, settings, run)),
            Kind::Agent(kind) => Scheme::ForeignAgent(kind.scheme(class, name, settings, run)),
        };
        SchemeChoice { label: self.label.clone(), scheme }
    }

    /// True if `scheme` was made by `choice`.
    pub fn made(&self, scheme: &Scheme) -> bool {
        matches!(scheme, Scheme::ForeignWindow(_) | Scheme::ForeignAgent(_))
            && scheme.name() == self.name
            && scheme.settings() == self.settings
    }
}

/// The schemes in Python that a scenario names.
pub struct NamedSchemes<'py> {
    py: Python<'py>,
    found: RefCell<Vec<(String, Arc<ForeignScheme>)>>,
}

impl<'py> NamedSchemes<'py> {
    /// None yet.
    pub fn new(py: Python<'py>) -> NamedSchemes<'py> {
        NamedSchemes { py, found: RefCell::default() }
    }

    /// The schemes that were found.
    pub fn into_schemes(self) -> impl Iterator<Item = Arc<ForeignScheme>> {
        self.found.into_inner().into_iter().map(|(_, scheme)| scheme)
    }

    fn load(&self, name: &str, settings: &str) -> PyResult<Arc<ForeignScheme>> {
        let module = self.py.import("lasthop.own_schemes")?;
        let class = module.call_method1("load_named", (name, settings))?;
        Ok(Arc::new(ForeignScheme::new(&class.cast_into::<PyType>()?)?))
    }
}

impl ForeignSchemes for NamedSchemes<'_> {
    fn find(
        &self,
        name: &str,
        settings: &Map<String, Value>,
    ) -> Option<Result<SchemeChoice, String>> {
        if !name.contains(".py:") {
            return None;
        }
        let settings = Value::Object(settings.clone()).to_string();
        let key = format!("{name} {settings}");
        let known = self.found.borrow().iter().find(|(k, _)| *k == key).map(|(_, s)| s.clone());
        let scheme = match known.map_or_else(|| self.load(name, &settings), Ok) {
            Ok(scheme) => scheme,
            Err(error) => return Some(Err(error.value(self.py).to_string())),
        };
        let choice = scheme.choice(self.py, &RunContext::new(Arc::default(), false));
        self.found.borrow_mut().push((key, scheme));
        Some(Ok(choice))
    }
}
