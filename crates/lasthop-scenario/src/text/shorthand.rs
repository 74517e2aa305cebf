//! Values with two forms: a short text ("1 %", "170 ms", "49 packets") and a table.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeOwned, Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use lasthop_core::diagnostics::Mistake;

/// A value with a short form and a table form.
pub(crate) trait Form: Sized {
    /// The table form.
    type Table: DeserializeOwned;
    /// The accepted forms, for messages.
    const EXPECTED: &'static str;
    /// Reads the short form.
    ///
    /// # Errors
    ///
    /// The text is not in this form.
    fn short(text: &str) -> Result<Self, Mistake>;
    /// Reads a bare number, where one is allowed.
    ///
    /// # Errors
    ///
    /// The type has no form without a unit.
    fn number(n: f64) -> Result<Self, Mistake> {
        Err(not_in_form::<Self>(format!("the number {n}")))
    }
    /// Converts the table form.
    ///
    /// # Errors
    ///
    /// Keys are missing, or exclude each other.
    fn table(table: Self::Table) -> Result<Self, Mistake>;
}

/// A value in none of the accepted forms.
pub(crate) fn not_in_form<T: Form>(found: String) -> Mistake {
    Mistake::WrongType { expected: T::EXPECTED.into(), found }
}

/// The mistake as an error of serde, which the reader of the tree turns back into the mistake.
pub fn passed<E: Error>(mistake: Mistake) -> E {
    E::custom(mistake.to_serde())
}

struct FormVisitor<T>(PhantomData<T>);

impl<'de, T: Form> Visitor<'de> for FormVisitor<T> {
    type Value = T;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(T::EXPECTED)
    }
    fn visit_str<E: Error>(self, s: &str) -> Result<T, E> {
        T::short(s).map_err(passed)
    }
    fn visit_f64<E: Error>(self, n: f64) -> Result<T, E> {
        T::number(n).map_err(passed)
    }
    fn visit_i64<E: Error>(self, n: i64) -> Result<T, E> {
        self.visit_f64(n as f64)
    }
    fn visit_u64<E: Error>(self, n: u64) -> Result<T, E> {
        self.visit_f64(n as f64)
    }
    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
        T::table(T::Table::deserialize(MapAccessDeserializer::new(map))?).map_err(passed)
    }
}

/// Reads a value in either form.
pub fn form<'de, T: Form, D: Deserializer<'de>>(d: D) -> Result<T, D::Error> {
    d.deserialize_any(FormVisitor(PhantomData))
}

/// As `form`, for a key that may be absent (with `#[serde(default)]`).
pub fn some_form<'de, T: Form, D: Deserializer<'de>>(d: D) -> Result<Option<T>, D::Error> {
    form(d).map(Some)
}

/// For values without a table form.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NoTable {}

/// Enums from which the schema of a value with two forms is derived.
macro_rules! schema_forms {
    ($($(#[$doc:meta])* $name:ident = $table:ty;)*) => {$(
        $(#[$doc])*
        #[derive(schemars::JsonSchema)]
        #[serde(untagged)]
        #[allow(dead_code, clippy::large_enum_variant, reason = "the schema is derived from it")]
        pub enum $name {
            /// Short form.
            Short(String),
            /// Table form.
            Table($table),
        }
    )*};
}

pub(crate) use schema_forms;
