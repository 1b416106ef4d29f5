//! What a parameter may be: a plain value, a quantity with its unit, one of a few words, or several of these.
//!
//! Each type says what may be written ([`Parameter::schema`]) and reads it ([`Parameter::read`]), which tells all
//! mistakes at once and each at its place. [`choices!`](crate::choices!) declares a parameter that is one of a few
//! words.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::config_error::unknown;
use crate::schema::{Schema, Several};
use crate::{ConfigError, ConfigErrors, ErrorCollector};

/// A number whose unit is part of its text form.
pub trait Quantity: Sized + fmt::Display {
    /// What it measures, such as `time`.
    const NAME: &'static str;
    /// The units it may have and what each is in the base unit, the smallest first.
    const SCALE: &'static [(&'static str, f64)];

    /// Reads the text form.
    ///
    /// # Errors
    /// A sentence that says what is wrong and what is allowed.
    fn parse(text: &str) -> Result<Self, String>;
}

/// A type that a parameter may have.
pub trait Parameter: Serialize + Sized {
    /// What may be written.
    fn schema() -> Schema;

    /// Reads what was written.
    ///
    /// # Errors
    /// Every mistake, with its place inside the value.
    fn read(value: Value) -> Result<Self, ConfigErrors>;
}

/// The word for no value, because TOML has no null: a parameter whose default is a value needs it.
const NONE: &str = "none";

impl<T: Parameter> Parameter for Option<T> {
    fn schema() -> Schema {
        Schema { optional: true, ..T::schema() }
    }
    fn read(value: Value) -> Result<Self, ConfigErrors> {
        if value.is_null() {
            return Ok(None);
        }
        let is_none = value == NONE;
        // A type that reads the word itself, such as a name, keeps it.
        match T::read(value) {
            Err(_) if is_none => Ok(None),
            read => read.map(Some),
        }
    }
}

impl<T: Parameter> Parameter for Box<T> {
    fn schema() -> Schema {
        T::schema()
    }
    fn read(value: Value) -> Result<Self, ConfigErrors> {
        T::read(value).map(Box::new)
    }
}

impl<T: Parameter> Parameter for Vec<T> {
    fn schema() -> Schema {
        Schema { several: Some(Several::List), ..T::schema() }
    }
    fn read(value: Value) -> Result<Self, ConfigErrors> {
        let Value::Array(list) = value else {
            return Err(refused("a list", &value).into());
        };
        let mut errors = ErrorCollector::default();
        let read = |(place, one)| errors.take(T::read(one).map_err(|e| e.within(&usize::to_string(&place))));
        let all = list.into_iter().enumerate().filter_map(read).collect();
        errors.finish(all)
    }
}

/// Values under names of the author's choice.
impl<T: Parameter> Parameter for BTreeMap<String, T> {
    fn schema() -> Schema {
        Schema { several: Some(Several::ByName), ..T::schema() }
    }
    fn read(value: Value) -> Result<Self, ConfigErrors> {
        each(value, |_, one| T::read(one))
    }
}

macro_rules! plain_parameter {
    ($($type:ty, $name:literal, $wanted:literal, $read:expr;)+) => {
        $(impl Parameter for $type {
            fn schema() -> Schema {
                Schema::of($name)
            }
            fn read(value: Value) -> Result<Self, ConfigErrors> {
                let read: fn(&Value) -> Option<Self> = $read;
                Ok(read(&value).ok_or_else(|| refused($wanted, &value))?)
            }
        })+
    };
}
plain_parameter! {
    f64, "number", "a number", Value::as_f64;
    u32, "whole number", "a whole number from 0 to 4294967295", |value| value.as_u64()?.try_into().ok();
    u64, "whole number", "a whole number, 0 or more", Value::as_u64;
    i64, "whole number", "a whole number", Value::as_i64;
    bool, "true or false", "true or false", Value::as_bool;
    String, "text", "text", |value| value.as_str().map(str::to_owned);
}

/// Declares a parameter that is one of a few words.
#[macro_export]
macro_rules! choices {
    (
        $(#[doc = $about:literal])+
        pub enum $name:ident {
            $( $(#[doc = $doc:literal])+ $variant:ident = $word:literal, )+
        }
    ) => {
        $(#[doc = $about])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq, ::serde::Serialize)]
        pub enum $name {
            $( $(#[doc = $doc])+ #[serde(rename = $word)] $variant, )+
        }

        impl $crate::Parameter for $name {
            fn schema() -> $crate::Schema {
                let choices = vec![$(
                    $crate::Choice { word: $word, doc: [$($doc.trim()),+].join(" ") }
                ),+];
                $crate::Schema { choices, ..$crate::Schema::of("choice") }
            }
            fn read(value: ::serde_json::Value) -> Result<Self, $crate::ConfigErrors> {
                let index = $crate::values::read_choice(&value, &[$($word),+])?;
                Ok([$(Self::$variant),+][index])
            }
        }
    };
}

/// Reads the tables in a table, each under a name of the author's choice, which must fit into tables, file names and
/// paths of fields; `read` is told the name.
///
/// # Errors
/// Every mistake in a name or in a table.
pub fn each<T, E: Into<ConfigErrors>>(
    value: Value,
    mut read: impl FnMut(&str, Value) -> Result<T, E>,
) -> Result<BTreeMap<String, T>, ConfigErrors> {
    let fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '+');
    let mut errors = ErrorCollector::default();
    let mut all = BTreeMap::new();
    for (name, value) in object(value)? {
        let is_name = !name.is_empty() && name.len() <= 64 && name.chars().all(fine);
        errors.check(is_name, name.as_str(), "a name has 1 to 64 letters, digits, `-`, `_` or `+`");
        if let Some(one) = errors.take(read(&name, value).map_err(|e| e.into().within(&name))) {
            all.insert(name, one);
        }
    }
    errors.finish(all)
}

/// The table that `value` is.
pub(crate) fn object(value: Value) -> Result<Map<String, Value>, ConfigError> {
    match value {
        Value::Object(table) => Ok(table),
        other => Err(refused("a table", &other)),
    }
}

/// Says what must be written instead of `value`.
pub(crate) fn refused(wanted: &str, value: &Value) -> ConfigError {
    ConfigError::at("", format!("must be {wanted}, not {}", told(value)))
}

/// A value as an error shows it: short.
pub(crate) fn told(value: &Value) -> String {
    match value {
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "a table".to_owned(),
        plain => plain.to_string(),
    }
}

/// Words as an error lists them.
pub(crate) fn quoted(words: &[&str]) -> String {
    words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}

/// Reads one of a few words; returns its index.
#[doc(hidden)]
pub fn read_choice(value: &Value, words: &[&str]) -> Result<usize, ConfigErrors> {
    let Value::String(given) = value else {
        return Err(refused(&format!("one of {}", quoted(words)), value).into());
    };
    let found = words.iter().position(|word| word == given);
    Ok(found.ok_or_else(|| ConfigError::at("", unknown("word", given, words)))?)
}

/// Reads the text form of a quantity.
pub(crate) fn read_quantity<T: Quantity>(value: &Value) -> Result<T, ConfigErrors> {
    let Value::String(text) = value else {
        let units: Vec<&str> = T::SCALE.iter().map(|(unit, _)| *unit).collect();
        let wanted = format!("text with a unit ({}: {})", T::NAME, units.join(", "));
        return Err(refused(&wanted, value).into());
    };
    Ok(T::parse(text).map_err(|problem| ConfigError::at("", problem))?)
}
