//! Reads a table key by key, for one or several owners, and tells all that is wrong in it.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Map, Value};

use crate::config_error::unknown;
use crate::schema::Schema;
use crate::values::{Parameter, each, object, quoted, told};
use crate::{ConfigError, ConfigErrors, ErrorCollector};

/// Reads a table key by key and collects every mistake. A key that is asked for is known; what nobody asked for is
/// refused by [`TableReader::finish`], with the nearest known key. A reader may be handed on, so that several owners
/// read their parameters out of one table:
///
/// ```
/// use aqm_net::{ConfigErrors, Rate, Size, Span, TableReader};
/// fn line(value: serde_json::Value) -> Result<(Rate, Option<Span>), ConfigErrors> {
///     let mut table = TableReader::new(value)?;
///     let rate = table.require("rate", "write how fast it sends, such as \"1Mbps\"");
///     let delay = table.take("delay");
///     table.finish(rate.map(|rate| (rate, delay)))
/// }
/// let errors = line(serde_json::json!({ "delay": "1m", "rat": "1Mbps" })).unwrap_err();
/// let said: Vec<String> = errors.iter().map(ToString::to_string).collect();
/// assert_eq!(said[0], "rat: unknown key `rat`; did you mean `rate`? allowed: `rate`, `delay`");
/// assert_eq!(said[1], "rate: is missing: write how fast it sends, such as \"1Mbps\"");
/// assert!(said[2].starts_with("delay: `1m`: unknown unit `m`"));
/// ```
#[derive(Debug)]
pub struct TableReader {
    unread: Map<String, Value>,
    known: Vec<KnownKey>,
    errors: ErrorCollector,
    any_key: bool,
}

/// A key that was asked for.
#[derive(Debug)]
struct KnownKey {
    name: &'static str,
    /// What may stand there.
    schema: Option<fn() -> Schema>,
}

impl KnownKey {
    /// The keys of the table that stands there, each after the key of the table.
    fn inner(&self) -> Vec<[&'static str; 2]> {
        let schema = self.schema.map(|schema| schema()).filter(|schema| schema.several.is_none());
        schema
            .map_or_else(Vec::new, |table| table.fields.iter().map(|field| [self.name, field.name]).collect())
    }
}

impl TableReader {
    /// A reader of this table.
    ///
    /// # Errors
    /// If the value is none.
    pub fn new(value: Value) -> Result<Self, ConfigErrors> {
        let unread = object(value)?;
        Ok(Self { unread, known: Vec::new(), errors: ErrorCollector::default(), any_key: false })
    }

    /// Takes what stands under `key`, as it was written; nothing if the key is left out.
    pub fn value(&mut self, key: &'static str) -> Option<Value> {
        self.known.push(KnownKey { name: key, schema: None });
        self.unread.remove(key)
    }

    /// Takes and reads what stands under `key`; nothing if it is left out or malformed.
    pub fn take<T: Parameter>(&mut self, key: &'static str) -> Option<T> {
        let read = self.take_with(key, T::read);
        if let Some(known) = self.known.last_mut() {
            known.schema = Some(T::schema);
        }
        read
    }

    /// The same with a reader of one's own.
    pub fn take_with<T, E: Into<ConfigErrors>>(
        &mut self,
        key: &'static str,
        read: impl FnOnce(Value) -> Result<T, E>,
    ) -> Option<T> {
        let value = self.value(key)?;
        self.errors.take(read(value).map_err(|errors| errors.into().within(key)))
    }

    /// Takes and reads what must stand under `key`; `remedy` says what to write if it is left out.
    pub fn require<T: Parameter>(&mut self, key: &'static str, remedy: &str) -> Option<T> {
        self.check(self.unread.contains_key(key), key, format_args!("is missing: {remedy}"));
        self.take(key)
    }

    /// Takes the tables that an author named and reads each with `read`, which is told the name; see [`each`]. There
    /// are none if the key is left out, and nothing is returned if one is malformed.
    pub fn take_each<T, E: Into<ConfigErrors>>(
        &mut self,
        key: &'static str,
        read: impl FnMut(&str, Value) -> Result<T, E>,
    ) -> Option<BTreeMap<String, T>> {
        if !self.unread.contains_key(key) {
            self.known.push(KnownKey { name: key, schema: None });
            return Some(BTreeMap::new());
        }
        self.take_with(key, |value| each(value, read))
    }

    /// Takes the `kind`, one of `names`; nothing if it is missing or unknown, and then no other key is refused.
    pub fn kind(&mut self, names: &'static [&'static str]) -> Option<&'static str> {
        let problem = match self.value("kind") {
            Some(Value::String(kind)) => match names.iter().find(|name| **name == kind) {
                Some(name) => return Some(name),
                None => unknown("kind", &kind, names),
            },
            Some(other) => format!("must be one of {}, not {}", quoted(names), told(&other)),
            None => format!("is missing: write one of {}", quoted(names)),
        };
        self.errors.add(ConfigError::at("kind", problem));
        self.any_key = true;
        None
    }

    /// The value of a result, or nothing and its mistakes are noted; their places are inside this table.
    pub fn note<T, E: Into<ConfigErrors>>(&mut self, result: Result<T, E>) -> Option<T> {
        self.errors.take(result)
    }

    /// Notes the `problem` at `place` inside this table unless the condition holds.
    pub fn check(&mut self, condition: bool, place: impl Into<String>, problem: impl fmt::Display) {
        self.errors.check(condition, place, problem);
    }

    /// What was read, if nothing is wrong.
    ///
    /// # Errors
    /// Every key that nobody asked for, then every other mistake.
    ///
    /// # Panics
    /// If nothing was read although nothing is wrong.
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
