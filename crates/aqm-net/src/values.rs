//! Types of parameters: plain values, quantities with units, choices, and collections of values.
//!
//! Each type describes its allowed values ([`Parameter::schema`]) and parses a value ([`Parameter::read`]); the parser
//! reports all errors with their paths. [`choices!`](crate::choices!) declares a parameter with a fixed set of words.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::config_error::unknown;
use crate::schema::{Schema, Several};
use crate::{ConfigError, ConfigErrors, ErrorCollector};

/// A number that is written with a unit.
pub trait Quantity: Sized + fmt::Display {
    /// Name of the quantity, for example `time`.
    const NAME: &'static str;
    /// Allowed units and their conversion factors to the base unit, with the smallest unit first.
    const SCALE: &'static [(&'static str, f64)];

    /// Parses a number with a unit.
    ///
    /// # Errors
    /// Returns a sentence that describes the error and the allowed values.
    fn parse(text: &str) -> Result<Self, String>;
}

/// A type of a parameter.
pub trait Parameter: Serialize + Sized {
    /// Returns the description of the allowed values.
    fn schema() -> Schema;

    /// Parses a value.
    ///
    /// # Errors
    /// Returns all errors, with their paths inside the value.
    fn read(value: Value) -> Result<Self, ConfigErrors>;
}

/// The word for "no value", which is needed because TOML has no null. Scenarios use this word for an optional parameter
/// that has a default.
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
        // If the type accepts the word itself, for example as a name, the word is a value of the type.
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
            return Err(wrong_type("a list", &value).into());
        };
        let mut errors = ErrorCollector::default();
        let read = |(path, one)| errors.take(T::read(one).map_err(|e| e.within(&usize::to_string(&path))));
        let all = list.into_iter().enumerate().filter_map(read).collect();
        errors.finish(all)
    }
}

/// Values with user-defined names.
impl<T: Parameter> Parameter for BTreeMap<String, T> {
    fn schema() -> Schema {
        Schema { several: Some(Several::ByName), ..T::schema() }
    }
    fn read(value: Value) -> Result<Self, ConfigErrors> {
        read_entries(value, |_, one| T::read(one))
    }
}

macro_rules! plain_parameter {
    ($($type:ty, $name:literal, $expected:literal, $read:expr;)+) => {
        $(impl Parameter for $type {
            fn schema() -> Schema {
                Schema::of($name)
            }
            fn read(value: Value) -> Result<Self, ConfigErrors> {
                let read: fn(&Value) -> Option<Self> = $read;
                Ok(read(&value).ok_or_else(|| wrong_type($expected, &value))?)
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

/// Declares a parameter whose value is one of a fixed set of words.
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

/// Reads the entries of a table with user-defined names. The names must be usable in tables, file names and field
/// paths. `read` parses an entry, given the entry's name and value.
///
/// # Errors
/// Returns all errors in names and values.
pub fn read_entries<T, E: Into<ConfigErrors>>(
    value: Value,
    mut read: impl FnMut(&str, Value) -> Result<T, E>,
) -> Result<BTreeMap<String, T>, ConfigErrors> {
    let fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '+');
    let mut errors = ErrorCollector::default();
    let mut all = BTreeMap::new();
    for (name, value) in object(value)? {
        let is_name = !name.is_empty() && name.len() <= 64 && name.chars().all(fine);
        errors.check(
            is_name,
            name.as_str(),
            "a name must consist of 1 to 64 letters, digits, `-`, `_` or `+`",
        );
        if let Some(one) = errors.take(read(&name, value).map_err(|e| e.into().within(&name))) {
            all.insert(name, one);
        }
    }
    errors.finish(all)
}

/// Returns the value as a table.
pub(crate) fn object(value: Value) -> Result<Map<String, Value>, ConfigError> {
    match value {
        Value::Object(table) => Ok(table),
        other => Err(wrong_type("a table", &other)),
    }
}

/// Creates the error for a value of the wrong type.
pub(crate) fn wrong_type(expected: &str, value: &Value) -> ConfigError {
    ConfigError::at("", format!("must be {expected}, not {}", format_value(value)))
}

/// Formats a value for an error message.
pub(crate) fn format_value(value: &Value) -> String {
    match value {
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "a table".to_owned(),
        plain => plain.to_string(),
    }
}

/// Formats a list of words for an error message.
pub(crate) fn quoted(words: &[&str]) -> String {
    words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}

/// Parses a word and returns its index in `words`.
#[doc(hidden)]
pub fn read_choice(value: &Value, words: &[&str]) -> Result<usize, ConfigErrors> {
    let Value::String(given) = value else {
        return Err(wrong_type(&format!("one of {}", quoted(words)), value).into());
    };
    let index = words.iter().position(|word| word == given);
    Ok(index.ok_or_else(|| ConfigError::at("", unknown("word", given, words)))?)
}

/// Parses a number with a unit.
pub(crate) fn read_quantity<T: Quantity>(value: &Value) -> Result<T, ConfigErrors> {
    let Value::String(text) = value else {
        let units: Vec<&str> = T::SCALE.iter().map(|(unit, _)| *unit).collect();
        let expected = format!("text with a unit ({}: {})", T::NAME, units.join(", "));
        return Err(wrong_type(&expected, value).into());
    };
    Ok(T::parse(text).map_err(|problem| ConfigError::at("", problem))?)
}
