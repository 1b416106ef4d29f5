//! Parses a table key by key, for one or several owners, and reports all errors.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Map, Value};

use crate::config_error::unknown;
use crate::schema::Schema;
use crate::values::{Parameter, format_value, object, quoted, read_entries};
use crate::{ConfigError, ConfigErrors, ErrorCollector};

/// Parses a table key by key and collects all errors. Every key that has been read counts as a known key.
/// [`TableReader::finish`] rejects all other keys and suggests the nearest known key. A reader may be passed on to
/// other owners, so that several owners can read their parameters from one table:
///
/// ```
/// use aqm_net::{ConfigErrors, Rate, Size, Span, TableReader};
/// fn link(value: serde_json::Value) -> Result<(Rate, Option<Span>), ConfigErrors> {
///     let mut table = TableReader::new(value)?;
///     let rate = table.require("rate", "set it to a rate, such as \"1Mbps\"");
///     let delay = table.take("delay");
///     table.finish(rate.map(|rate| (rate, delay)))
/// }
/// let errors = link(serde_json::json!({ "delay": "1m", "rat": "1Mbps" })).unwrap_err();
/// let messages: Vec<String> = errors.iter().map(ToString::to_string).collect();
/// assert_eq!(messages[0], "rat: unknown key `rat`; did you mean `rate`? allowed: `rate`, `delay`");
/// assert_eq!(messages[1], "rate: is missing: set it to a rate, such as \"1Mbps\"");
/// assert!(messages[2].starts_with("delay: `1m`: unknown unit `m`"));
/// ```
#[derive(Debug)]
pub struct TableReader {
    unread: Map<String, Value>,
    known: Vec<KnownKey>,
    errors: ErrorCollector,
    any_key: bool,
}

/// A known key.
#[derive(Debug)]
struct KnownKey {
    name: &'static str,
    /// Schema of the key's value.
    schema: Option<fn() -> Schema>,
}

impl KnownKey {
    /// Returns the keys of the table under this key, as pairs of the table's key and the inner key.
    fn inner(&self) -> Vec<[&'static str; 2]> {
        let schema = self.schema.map(|schema| schema()).filter(|schema| schema.several.is_none());
        schema
            .map_or_else(Vec::new, |table| table.fields.iter().map(|field| [self.name, field.name]).collect())
    }
}

impl TableReader {
    /// Creates a reader of this table.
    ///
    /// # Errors
    /// Returns an error if the value is not a table.
    pub fn new(value: Value) -> Result<Self, ConfigErrors> {
        let unread = object(value)?;
        Ok(Self { unread, known: Vec::new(), errors: ErrorCollector::default(), any_key: false })
    }

    /// Removes and returns the value of `key` without parsing the value; `None` if the key is missing.
    pub fn value(&mut self, key: &'static str) -> Option<Value> {
        self.known.push(KnownKey { name: key, schema: None });
        self.unread.remove(key)
    }

    /// Removes and parses the value of `key`; `None` if the value is missing or invalid.
    pub fn take<T: Parameter>(&mut self, key: &'static str) -> Option<T> {
        let read = self.take_with(key, T::read);
        if let Some(known) = self.known.last_mut() {
            known.schema = Some(T::schema);
        }
        read
    }

    /// Removes the value of `key` and parses the value with `read`; `None` if the value is missing or invalid.
    pub fn take_with<T, E: Into<ConfigErrors>>(
        &mut self,
        key: &'static str,
        read: impl FnOnce(Value) -> Result<T, E>,
    ) -> Option<T> {
        let value = self.value(key)?;
        self.errors.take(read(value).map_err(|errors| errors.into().within(key)))
    }

    /// Removes and parses the value of `key`, which must exist. If the key is missing, the error message contains
    /// `remedy`.
    pub fn require<T: Parameter>(&mut self, key: &'static str, remedy: &str) -> Option<T> {
        self.check(self.unread.contains_key(key), key, format_args!("is missing: {remedy}"));
        self.take(key)
    }

    /// Removes the tables with user-defined names under `key`, and parses each table with `read`, whose first argument
    /// is the table's name; see [`read_entries`]. Returns an empty map if the key is missing, and `None` if a table is
    /// invalid.
    pub fn take_each<T, E: Into<ConfigErrors>>(
        &mut self,
        key: &'static str,
        read: impl FnMut(&str, Value) -> Result<T, E>,
    ) -> Option<BTreeMap<String, T>> {
        if !self.unread.contains_key(key) {
            self.known.push(KnownKey { name: key, schema: None });
            return Some(BTreeMap::new());
        }
        self.take_with(key, |value| read_entries(value, read))
    }

    /// Removes and returns the value of `kind`, which must be one of `names`. If the kind is missing or unknown,
    /// returns `None` and accepts all other keys.
    pub fn kind(&mut self, names: &'static [&'static str]) -> Option<&'static str> {
        let problem = match self.value("kind") {
            Some(Value::String(kind)) => match names.iter().find(|name| **name == kind) {
                Some(name) => return Some(name),
                None => unknown("kind", &kind, names),
            },
            Some(other) => format!("must be one of {}, not {}", quoted(names), format_value(&other)),
            None => format!("is missing: write one of {}", quoted(names)),
        };
        self.errors.add(ConfigError::at("kind", problem));
        self.any_key = true;
        None
    }

    /// Returns the value of a successful result; otherwise, adds the result's errors, whose paths are relative to this
    /// table, and returns `None`.
    pub fn note<T, E: Into<ConfigErrors>>(&mut self, result: Result<T, E>) -> Option<T> {
        self.errors.take(result)
    }

    /// Adds the error `problem` at `path`, which is relative to this table, unless the condition is true.
    pub fn check(&mut self, condition: bool, path: impl Into<String>, problem: impl fmt::Display) {
        self.errors.check(condition, path, problem);
    }

    /// Returns the parsed value if there are no errors.
    ///
    /// # Errors
    /// Returns all errors, with errors about unknown keys first.
    ///
    /// # Panics
    /// Panics if the value is `None` although there are no errors.
    pub fn finish<T>(mut self, read: Option<T>) -> Result<T, ConfigErrors> {
        if !self.any_key {
            let known: Vec<&str> = self.known.iter().map(|known| known.name).collect();
            let inner: Vec<[&str; 2]> = self.known.iter().flat_map(KnownKey::inner).collect();
            for key in self.unread.keys() {
                self.errors.add(ConfigError::unknown_key(key, &known, &inner));
            }
        }
        self.errors.finish_some(read)
    }
}
