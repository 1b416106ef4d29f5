//! How a parameter, and a table of them, is declared, read and shown.
//!
//! [`parameters!`](crate::parameters!) declares a table: every parameter once, with its meaning, default and source.
//! [`choices!`](crate::choices!) declares a parameter that is one of a few words. Both are read by
//! [`Parameter::read`], which tells all mistakes at once and each at its place, and shown as data by
//! [`Parameter::schema`]. What is no plain table reads its keys one by one with a [`TableReader`].

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::config_error::unknown;
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

/// A table of parameters: implemented by [`parameters!`](crate::parameters!).
pub trait Parameters: Parameter {
    /// What the table configures, in a sentence or two.
    fn about() -> &'static str;

    /// Its parameters, in the order of declaration.
    fn parameters() -> Vec<Field>;

    /// Takes its parameters out of a table that may hold other keys; what is left out or malformed has its default.
    fn take_from(table: &mut TableReader) -> Self;
}

/// What may be written for a parameter, as documentation shows it.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Schema {
    /// What it is: `number`, `whole number`, `true or false`, `text`, `choice`, `table`, `plug-in`, or the name of a
    /// [`Quantity`].
    pub r#type: &'static str,
    /// Whether there may be several, and in which form.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub several: Option<Several>,
    /// Whether it may be left out and nothing takes its place.
    pub optional: bool,
    /// The units of a quantity, the smallest first.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub units: Vec<&'static str>,
    /// The words of a choice.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub choices: Vec<Choice>,
    /// The name of the family whose members the `kind` of a plug-in names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub family: Option<&'static str>,
    /// The parameters inside a table.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub fields: Vec<Field>,
}

impl Schema {
    /// One value of this type.
    pub fn of(r#type: &'static str) -> Self {
        Self { r#type, ..Self::default() }
    }

    /// A table with these parameters.
    pub fn table(fields: Vec<Field>) -> Self {
        Self { fields, ..Self::of("table") }
    }
}

/// The forms that several values may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Several {
    /// A list.
    List,
    /// One value, or a list.
    OneOrList,
    /// A table that holds each under a name of the author's choice.
    ByName,
}

/// A word that may be written, and what it means.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Choice {
    /// The word.
    pub word: &'static str,
    /// What it means, as a sentence.
    pub doc: String,
}

/// One parameter, as documentation shows it.
#[derive(Clone, Debug, Serialize)]
pub struct Field {
    /// Its key in a scenario file.
    pub name: &'static str,
    /// What it means.
    pub doc: String,
    /// What may be written.
    #[serde(flatten)]
    pub schema: Schema,
    /// Its default, as it would be written; null if it has none.
    pub default: Value,
    /// Where the default comes from.
    pub source: &'static str,
}

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
    known: Vec<&'static str>,
    errors: ErrorCollector,
    any_key: bool,
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
        self.known.push(key);
        self.unread.remove(key)
    }

    /// Takes and reads what stands under `key`; nothing if it is left out or malformed.
    pub fn take<T: Parameter>(&mut self, key: &'static str) -> Option<T> {
        self.take_with(key, T::read)
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
            self.known.push(key);
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
            for key in self.unread.keys() {
                self.errors.add(ConfigError::unknown_key(key, &self.known));
            }
        }
        self.errors.finish(()).map(|()| read.expect("without a mistake everything was read"))
    }
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

fn object(value: Value) -> Result<Map<String, Value>, ConfigError> {
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
fn told(value: &Value) -> String {
    match value {
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "a table".to_owned(),
        plain => plain.to_string(),
    }
}

fn quoted(words: &[&str]) -> String {
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

impl<T: Parameter> Parameter for Option<T> {
    fn schema() -> Schema {
        Schema { optional: true, ..T::schema() }
    }
    fn read(value: Value) -> Result<Self, ConfigErrors> {
        if value.is_null() { Ok(None) } else { T::read(value).map(Some) }
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
    bool, "true or false", "true or false", Value::as_bool;
    String, "text", "text", |value| value.as_str().map(str::to_owned);
}

/// Declares a table of parameters: each field with its meaning, type, default and the default's
/// source. The fields are private to nobody, all may be left out, unknown ones are refused.
#[macro_export]
macro_rules! parameters {
    (
        $(#[doc = $about:literal])+
        pub struct $name:ident {
            $( $(#[doc = $doc:literal])+ pub $field:ident : $type:ty = $default:expr, $source:literal; )*
        }
    ) => {
        $(#[doc = $about])+
        #[derive(Clone, Debug, PartialEq, ::serde::Serialize)]
        pub struct $name {
            $( $(#[doc = $doc])+ pub $field: $type, )*
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $( $field: $default, )* }
            }
        }

        impl $crate::Parameters for $name {
            fn about() -> &'static str {
                concat!($($about, "\n"),+).trim()
            }
            fn parameters() -> Vec<$crate::Field> {
                let default = Self::default();
                vec![$( $crate::Field {
                    // A field may be named after a word of Rust.
                    name: stringify!($field).trim_start_matches("r#"),
                    doc: [$($doc.trim()),+].join(" "),
                    schema: <$type as $crate::Parameter>::schema(),
                    default: ::serde_json::to_value(&default.$field).expect("a default can be written"),
                    source: $source,
                }, )*]
            }
            fn take_from(table: &mut $crate::TableReader) -> Self {
                Self { $(
                    $field: table
                        .take::<$type>(stringify!($field).trim_start_matches("r#"))
                        .unwrap_or_else(|| $default),
                )* }
            }
        }

        impl $crate::Parameter for $name {
            fn schema() -> $crate::Schema {
                $crate::Schema::table(<Self as $crate::Parameters>::parameters())
            }
            fn read(value: ::serde_json::Value) -> Result<Self, $crate::ConfigErrors> {
                let mut table = $crate::TableReader::new(value)?;
                let read = <Self as $crate::Parameters>::take_from(&mut table);
                table.finish(Some(read))
            }
        }
    };
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
                let index = $crate::parameters::read_choice(&value, &[$($word),+])?;
                Ok([$(Self::$variant),+][index])
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{Length, Span};

    choices! {
        /// A colour.
        pub enum Colour {
            /// The colour of grass.
            Green = "green",
            /// The colour of the sky,
            /// on a good day.
            SkyBlue = "sky-blue",
        }
    }

    parameters! {
        /// A fruit.
        pub struct Apple {
            /// Which colour.
            pub colour: Colour = Colour::Green, "ours";
            /// When eaten.
            pub eaten: Option<Span> = None, "ours";
            /// What is inside.
            pub seeds: Vec<Seed> = vec![Seed::default()], "ours";
            /// What holds it.
            pub stalk: Stalk = Stalk::default(), "ours";
            /// Who is in it.
            pub worms: BTreeMap<String, u32> = BTreeMap::new(), "ours";
            /// What it tastes like.
            pub r#match: Vec<String> = Vec::new(), "ours";
        }
    }

    parameters! {
        /// What holds a fruit.
        pub struct Stalk {
            /// How long.
            pub length: Length = Length::Packets(2), "a textbook";
            /// How thick.
            pub width: Option<Length> = None, "ours";
        }
    }

    parameters! {
        /// What grows again.
        pub struct Seed {
            /// How long.
            pub length: Length = Length::Packets(1), "a textbook";
            /// How heavy.
            pub weight: f64 = 0.5, "ours";
        }
    }

    fn problems(value: Value) -> Vec<String> {
        Apple::read(value).unwrap_err().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_table_reads_what_it_writes() {
        let written = json!({
            "colour": "sky-blue", "eaten": "2s", "seeds": [{"length": "4p"}, {}],
            "worms": {"one": 1}, "match": ["sweet"],
        });
        let apple = Apple::read(written).unwrap();
        assert_eq!(apple.seeds[0].length, Length::Packets(4));
        assert_eq!(Apple::read(json!(apple)).unwrap(), apple);
        assert_eq!(Apple::read(json!({})).unwrap(), Apple::default());
        assert_eq!(Apple::read(json!({"eaten": null})).unwrap().eaten, None);
    }

    #[test]
    fn all_mistakes_are_told_each_at_its_place_and_unknown_keys_first() {
        let found = problems(json!({
            "colour": "sky-bleu",
            "seeds": [{}, {"length": "1q", "weight": "heavy"}, 3],
            "stalk": {"lenght": "1p", "width": true},
            "worms": {"one": 1, "no such": 2, "two": -1},
            "colr": 1,
        }));
        assert_eq!(
            found,
            [
                "stalk.lenght: unknown key `lenght`; did you mean `length`? allowed: `length`, `width`",
                "colr: unknown key `colr`; did you mean `colour`? allowed: `colour`, `eaten`, `seeds`, `stalk`, \
                 `worms`, `match`",
                "colour: unknown word `sky-bleu`; did you mean `sky-blue`? allowed: `green`, `sky-blue`",
                "seeds.1.length: `1q`: unknown unit `q`, expected p, B, kB, MB",
                "seeds.1.weight: must be a number, not \"heavy\"",
                "seeds.2: must be a table, not 3",
                "stalk.width: must be text with a unit (packets or bytes: p, B, kB, MB), not true",
                "worms.no such: a name has 1 to 64 letters, digits, `-`, `_` or `+`",
                "worms.two: must be a whole number from 0 to 4294967295, not -1",
            ]
        );
        assert_eq!(problems(json!([])), ["must be a table, not a list"]);
    }

    #[test]
    fn a_table_may_have_several_owners() {
        let read = |value| {
            let mut table = TableReader::new(value).unwrap();
            let (seed, stalk) = (table.take::<Seed>("seed"), Stalk::take_from(&mut table));
            table.check(stalk.length.count() > 1, "length", "must be more");
            table.finish(Some((seed, stalk)))
        };
        let (seed, stalk) = read(json!({"seed": {"weight": 2}, "length": "7p"})).unwrap();
        assert_eq!((seed.unwrap().weight, stalk.length), (2.0, Length::Packets(7)));
        let errors = read(json!({"seed": {"wieght": 2}, "length": "1p", "widht": "1p"})).unwrap_err();
        let places: Vec<&str> = errors.iter().map(|error| error.place.as_str()).collect();
        assert_eq!(places, ["seed.wieght", "widht", "length"]);
    }

    #[test]
    fn a_schema_is_data() {
        let fields = Apple::parameters();
        let shown = |name: &str| json!(fields.iter().find(|field| field.name == name).unwrap());
        assert_eq!(shown("colour")["type"], "choice");
        assert_eq!(
            shown("colour")["choices"],
            json!([
                {"word": "green", "doc": "The colour of grass."},
                {"word": "sky-blue", "doc": "The colour of the sky, on a good day."},
            ])
        );
        assert_eq!((&shown("eaten")["type"], &shown("eaten")["optional"]), (&json!("time"), &json!(true)));
        assert_eq!(shown("eaten")["units"], json!(["ns", "us", "ms", "s", "min"]));
        let seeds = shown("seeds");
        assert_eq!((&seeds["type"], &seeds["several"]), (&json!("table"), &json!("list")));
        assert_eq!(seeds["default"], json!([{"length": "1p", "weight": 0.5}]));
        assert_eq!(seeds["fields"][0]["source"], "a textbook");
        assert_eq!(shown("worms")["several"], "by-name");
        assert_eq!(shown("match")["type"], "text");
    }
}
