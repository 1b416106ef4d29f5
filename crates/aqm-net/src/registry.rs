//! How a family of plug-ins (queue disciplines, workloads, window laws) is declared and read.
//!
//! Three macros carry it. [`parameters!`](crate::parameters) declares a plug-in's `Config`: every
//! parameter once, with its meaning, default and source. [`choices!`](crate::choices) declares a
//! parameter that is one of a few words. [`registry!`](crate::registry!) lists the members of a
//! family, one line each, and gives it a reader for scenario files and a catalogue for
//! documentation. Modules are not declared inside the macro: formatters do not follow macros.

use std::fmt;

use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_path_to_error::Segment;

/// What is wrong in a configuration, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// The path of the offending field, such as `bottleneck.queue.max_th`; may be empty.
    pub place: String,
    /// What is wrong, and what is allowed.
    pub problem: String,
}

impl ConfigError {
    /// The `problem` at `place`.
    pub fn at(place: impl Into<String>, problem: impl Into<String>) -> Self {
        Self { place: place.into(), problem: problem.into() }
    }

    /// The same error seen from outside: its place is inside `outer`.
    #[must_use]
    pub fn within(mut self, outer: &str) -> Self {
        self.place = join(outer, &self.place);
        self
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.place.is_empty() {
            f.write_str(&self.problem)
        } else {
            write!(f, "{}: {}", self.place, self.problem)
        }
    }
}

impl std::error::Error for ConfigError {}

fn join(outer: &str, inner: &str) -> String {
    match (outer, inner) {
        ("", path) | (path, "") => path.to_owned(),
        _ => format!("{outer}.{inner}"),
    }
}

/// A number whose unit is part of its text form.
pub trait Quantity: Sized + fmt::Display {
    /// The units it may have, for documentation and errors.
    const UNIT: &'static str;

    /// Reads the text form.
    ///
    /// # Errors
    /// A sentence that says what is wrong and what is allowed.
    fn parse(text: &str) -> Result<Self, String>;
}

/// A type that a parameter may have.
pub trait Parameter {
    /// What a user may write, such as `time: ns, us, ms, s or min`.
    fn kind() -> String;

    /// The parameters inside, if this is a table.
    fn fields() -> Vec<Field> {
        Vec::new()
    }
}

impl<T: Quantity> Parameter for T {
    fn kind() -> String {
        T::UNIT.to_owned()
    }
}

impl<T: Parameter> Parameter for Option<T> {
    fn kind() -> String {
        format!("{}; may be left out", T::kind())
    }
    fn fields() -> Vec<Field> {
        T::fields()
    }
}

impl Parameter for Vec<String> {
    fn kind() -> String {
        "list of texts".to_owned()
    }
}

impl Parameter for Vec<u64> {
    fn kind() -> String {
        "list of whole numbers".to_owned()
    }
}

/// A list of tables: the parameters inside are those of each table.
impl<T: Parameters> Parameter for Vec<T> {
    fn kind() -> String {
        let names: Vec<&str> = T::parameters().iter().map(|field| field.name).collect();
        format!("list of tables: {}", names.join(", "))
    }
    fn fields() -> Vec<Field> {
        T::parameters()
    }
}

macro_rules! plain_parameter {
    ($($type:ty => $kind:literal),+ $(,)?) => {
        $(impl Parameter for $type {
            fn kind() -> String {
                $kind.to_owned()
            }
        })+
    };
}
plain_parameter! {
    f64 => "number", u32 => "whole number", u64 => "whole number", bool => "true or false", String => "text",
}

/// A table of parameters: implemented by [`parameters!`](crate::parameters).
pub trait Parameters {
    /// What the table configures, in a sentence or two.
    fn about() -> &'static str;
    /// Its parameters, in the order of declaration.
    fn parameters() -> Vec<Field>;
}

/// One parameter, as documentation shows it.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Field {
    /// Its key in a scenario file.
    pub name: &'static str,
    /// What it means.
    pub doc: String,
    /// What may be written.
    pub kind: String,
    /// Its default, as it would be written; null if it has none.
    pub default: Value,
    /// Where the default comes from.
    pub source: &'static str,
    /// The parameters inside, if it is a table.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<Field>,
}

/// One member of a family, as documentation shows it.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Entry {
    /// Its name in scenario files.
    pub name: &'static str,
    /// The family it belongs to, such as `queue discipline`.
    pub family: &'static str,
    /// What it is.
    pub about: &'static str,
    /// Its parameters.
    pub parameters: Vec<Field>,
}

/// Checks the name of a table that an author made up, in a `section` of a scenario: it must fit into tables,
/// file names and paths of fields.
///
/// # Errors
/// If it does not.
pub fn check_name(section: &str, name: &str) -> Result<(), ConfigError> {
    let fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '+');
    if name.is_empty() || name.len() > 64 || !name.chars().all(fine) {
        let allowed = "a name has 1 to 64 letters, digits, `-`, `_` or `+`";
        return Err(ConfigError::at(format!("{section}.{name}"), allowed));
    }
    Ok(())
}

/// Reads a value as a `T`; an error knows the path of the field below the value.
///
/// # Errors
/// If the value does not have the form of a `T`.
pub fn read<T: DeserializeOwned>(value: Value) -> Result<T, ConfigError> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let place = error.path().iter().fold(String::new(), |place, segment| match segment {
            Segment::Seq { index } => join(&place, &index.to_string()),
            other => join(&place, &other.to_string()),
        });
        ConfigError::at(place, error.into_inner().to_string())
    })
}

/// Takes the `kind` out of a table.
///
/// # Errors
/// If the value is no table or has no `kind`.
pub fn take_kind(value: Value, names: &[&str]) -> Result<(String, Value), ConfigError> {
    let expected = || names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    let Value::Object(mut table) = value else {
        return Err(ConfigError::at("", format!("must be a table with a `kind`: one of {}", expected())));
    };
    match table.remove("kind") {
        Some(Value::String(kind)) if names.contains(&kind.as_str()) => Ok((kind, Value::Object(table))),
        Some(other) => {
            Err(ConfigError::at("kind", format!("unknown kind {other}, expected one of {}", expected())))
        }
        None => Err(ConfigError::at("kind", format!("is missing: write one of {}", expected()))),
    }
}

/// Declares a table of parameters: each field with its meaning, type, default and the default's
/// source. The fields are private to nobody, all may be left out, unknown ones are refused. Where the
/// default of one field depends on another, `completed by FUNCTION;` follows the table: a function from the
/// table as it was written to the table in full.
#[macro_export]
macro_rules! parameters {
    (
        $(#[doc = $about:literal])+
        pub struct $name:ident {
            $( $(#[doc = $doc:literal])+ pub $field:ident : $type:ty = $default:expr, $source:literal; )*
        }
    ) => {
        $(#[doc = $about])+
        #[derive(Clone, Debug, PartialEq, ::serde::Serialize, ::serde::Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct $name {
            $( $(#[doc = $doc])+ pub $field: $type, )*
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $( $field: $default, )* }
            }
        }

        $crate::parameters! { @told $name, [$($about)+], $( [$($doc)+] $field: $type, $source; )* }
    };
    (
        $(#[doc = $about:literal])+
        pub struct $name:ident {
            $( $(#[doc = $doc:literal])+ pub $field:ident : $type:ty = $default:expr, $source:literal; )*
        }
        completed by $complete:path;
    ) => {
        $(#[doc = $about])+
        #[derive(Clone, Debug, PartialEq, ::serde::Serialize)]
        pub struct $name {
            $( $(#[doc = $doc])+ pub $field: $type, )*
        }

        impl Default for $name {
            fn default() -> Self {
                $complete(Self { $( $field: $default, )* })
            }
        }

        impl<'de> ::serde::Deserialize<'de> for $name {
            fn deserialize<D: ::serde::Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
                #[derive(::serde::Deserialize)]
                #[serde(default, deny_unknown_fields)]
                struct Written {
                    $( $field: $type, )*
                }
                impl Default for Written {
                    fn default() -> Self {
                        Self { $( $field: $default, )* }
                    }
                }
                let Written { $( $field, )* } = <Written as ::serde::Deserialize>::deserialize(input)?;
                Ok($complete(Self { $( $field, )* }))
            }
        }

        $crate::parameters! { @told $name, [$($about)+], $( [$($doc)+] $field: $type, $source; )* }
    };
    (
        @told $name:ident, [$($about:literal)+],
        $( [$($doc:literal)+] $field:ident : $type:ty, $source:literal; )*
    ) => {
        impl $crate::registry::Parameters for $name {
            fn about() -> &'static str {
                concat!($($about, "\n"),+).trim()
            }
            fn parameters() -> Vec<$crate::registry::Field> {
                let default = Self::default();
                vec![$( $crate::registry::Field {
                    // A field may be named after a word of Rust.
                    name: stringify!($field).trim_start_matches("r#"),
                    doc: [$($doc.trim()),+].join(" "),
                    kind: <$type as $crate::registry::Parameter>::kind(),
                    default: ::serde_json::to_value(&default.$field).expect("a default can be written"),
                    source: $source,
                    fields: <$type as $crate::registry::Parameter>::fields(),
                }, )*]
            }
        }

        impl $crate::registry::Parameter for $name {
            fn kind() -> String {
                "table".to_owned()
            }
            fn fields() -> Vec<$crate::registry::Field> {
                <Self as $crate::registry::Parameters>::parameters()
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
        #[derive(Clone, Copy, Debug, PartialEq, Eq, ::serde::Serialize, ::serde::Deserialize)]
        pub enum $name {
            $( $(#[doc = $doc])+ #[serde(rename = $word)] $variant, )+
        }

        impl $crate::registry::Parameter for $name {
            fn kind() -> String {
                let words: Vec<String> =
                    vec![$( format!("`{}` ({})", $word, [$($doc.trim()),+].join(" ").trim_end_matches('.')) ),+];
                format!("one of {}", words.join(", "))
            }
        }
    };
}

/// Lists the members of a family. `$build` is the trait that every member's `Config` implements;
/// each member is a module with a `Config` made by [`parameters!`](crate::parameters).
#[macro_export]
macro_rules! registry {
    (
        $(#[$meta:meta])*
        pub enum $name:ident: $build:path, $family:literal {
            $( $kind:literal => $module:ident, )+
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq)]
        #[allow(non_camel_case_types, missing_docs)]
        pub enum $name {
            $( $module($module::Config), )+
        }

        impl $name {
            /// The names of the members, in the order of registration.
            pub const NAMES: &'static [&'static str] = &[$($kind),+];

            /// The name of this member.
            pub fn kind(&self) -> &'static str {
                match self { $( Self::$module(_) => $kind, )+ }
            }

            /// Reads a table: its `kind` names the member, the rest are the member's parameters.
            ///
            /// # Errors
            /// If the kind is unknown, or a parameter is unknown or malformed.
            pub fn read(value: ::serde_json::Value) -> Result<Self, $crate::ConfigError> {
                let (kind, rest) = $crate::registry::take_kind(value, Self::NAMES)?;
                match kind.as_str() {
                    $( $kind => $crate::registry::read(rest).map(Self::$module), )+
                    _ => unreachable!("take_kind returns a registered name"),
                }
            }

            /// The table in full, every default filled in.
            pub fn to_value(&self) -> ::serde_json::Value {
                let mut value = match self {
                    $( Self::$module(config) => ::serde_json::to_value(config), )+
                }
                .expect("parameters can be written");
                value["kind"] = self.kind().into();
                value
            }

            /// Every member with its default parameters.
            pub fn every() -> Vec<Self> {
                vec![$( Self::$module($module::Config::default()) ),+]
            }

            /// Every member, as documentation shows it.
            pub fn catalog() -> Vec<$crate::registry::Entry> {
                use $crate::registry::Parameters as _;
                vec![$( $crate::registry::Entry {
                    name: $kind,
                    family: $family,
                    about: $module::Config::about(),
                    parameters: $module::Config::parameters(),
                } ),+]
            }
        }

        impl std::ops::Deref for $name {
            type Target = dyn $build;
            fn deref(&self) -> &Self::Target {
                match self { $( Self::$module(config) => config, )+ }
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use crate::{Length, Span};
    use serde_json::json;

    choices! {
        /// A colour.
        pub enum Colour {
            /// The colour of grass.
            Green = "green",
            /// The colour of the sky.
            SkyBlue = "sky-blue",
        }
    }

    mod apple {
        use super::*;
        parameters! {
            /// A fruit.
            pub struct Config {
                /// How long.
                pub length: Length = Length::Packets(3), "a textbook";
                /// Which colour.
                pub colour: Colour = Colour::Green, "ours";
                /// When eaten.
                pub eaten: Option<Span> = None, "ours";
                /// What is inside.
                pub seeds: Vec<Seed> = vec![Seed::default()], "ours";
                /// What holds it.
                pub stalk: Stalk = Stalk::default(), "ours";
            }
        }
        parameters! {
            /// What holds a fruit.
            pub struct Stalk {
                /// How long.
                pub length: Length = Length::Packets(2), "a textbook";
                /// How thick. Left out: as long.
                pub width: Option<Length> = None, "ours";
            }
            completed by Stalk::completed;
        }
        impl Stalk {
            fn completed(self) -> Self {
                Self { width: self.width.or(Some(self.length)), ..self }
            }
        }
        parameters! {
            /// What grows again.
            pub struct Seed {
                /// How long.
                pub length: Length = Length::Packets(1), "a textbook";
            }
        }
        impl Fruit for Config {
            fn sweet(&self) -> bool {
                self.colour == Colour::Green
            }
        }
    }

    /// Something to eat.
    pub trait Fruit {
        /// Whether it tastes sweet.
        fn sweet(&self) -> bool;
    }

    registry! {
        /// Any fruit.
        pub enum AnyFruit: Fruit, "fruit" {
            "apple" => apple,
        }
    }

    #[test]
    fn a_member_reads_what_it_writes() {
        let fruit = AnyFruit::read(json!({"kind": "apple", "colour": "sky-blue"})).unwrap();
        assert_eq!(fruit.kind(), "apple");
        assert!(AnyFruit::every().iter().all(|one| one.sweet()));
        assert!(!fruit.sweet());
        assert_eq!(AnyFruit::read(fruit.to_value()).unwrap(), fruit);
        assert_eq!(fruit.to_value()["length"], "3p");
    }

    #[test]
    fn what_another_field_decides_is_filled_in_when_it_is_read() {
        let stalk = |value| AnyFruit::read(json!({"kind": "apple", "stalk": value})).unwrap().to_value();
        assert_eq!(stalk(json!({"length": "5p"}))["stalk"], json!({"length": "5p", "width": "5p"}));
        assert_eq!(stalk(json!({"width": "1p"}))["stalk"], json!({"length": "2p", "width": "1p"}));
        assert_eq!(AnyFruit::every()[0].to_value(), stalk(json!({})));
        assert_eq!(AnyFruit::catalog()[0].parameters[4].fields[1].default, "2p");
        let wrong = |value| AnyFruit::read(json!({"kind": "apple", "stalk": value})).unwrap_err().to_string();
        assert!(wrong(json!({"width": "1q"})).starts_with("stalk.width: `1q`"));
        assert!(
            wrong(json!({"widht": "1p"})).contains("unknown field `widht`, expected `length` or `width`")
        );
    }

    #[test]
    fn an_error_names_place_and_remedy() {
        let problem = |value| AnyFruit::read(value).unwrap_err().to_string();
        assert_eq!(
            problem(json!({"kind": "apple", "length": "30q"})),
            "length: `30q`: unknown unit `q`, expected p, B, kB, MB"
        );
        assert!(
            problem(json!({"kind": "apple", "lenght": "3p"})).contains("unknown field `lenght`, expected")
        );
        assert!(problem(json!({"kind": "apple", "colour": "red"})).contains("`green`"));
        assert_eq!(
            problem(json!({"kind": "apple", "seeds": [{}, {"length": "1q"}]})),
            "seeds.1.length: `1q`: unknown unit `q`, expected p, B, kB, MB"
        );
        assert_eq!(problem(json!({"kind": "pear"})), "kind: unknown kind \"pear\", expected one of `apple`");
        assert_eq!(problem(json!({})), "kind: is missing: write one of `apple`");
        assert!(problem(json!(3)).contains("must be a table"));
    }

    #[test]
    fn the_catalogue_tells_everything() {
        let entry = &AnyFruit::catalog()[0];
        assert_eq!((entry.name, entry.about), ("apple", "A fruit."));
        assert_eq!(entry.parameters[0].default, "3p");
        assert_eq!(entry.parameters[0].source, "a textbook");
        assert!(entry.parameters[1].kind.contains("`sky-blue` (The colour of the sky)"));
        let seeds = &entry.parameters[3];
        assert_eq!(
            (seeds.kind.as_str(), &seeds.default),
            ("list of tables: length", &json!([{"length": "1p"}]))
        );
        assert_eq!(seeds.fields[0].source, "a textbook");
    }
}
