//! Declaration, parsing and documentation of families of plug-ins (queue disciplines, workloads, congestion controls).
//!
//! [`registry!`](crate::registry!) lists the members of a family, one per line, and provides a parser for scenario
//! files and a catalogue for documentation. Modules are declared outside the macro, because formatters do not format
//! the contents of macros.

use serde::Serialize;
use serde_json::Value;

use crate::{Field, Parameters};

/// A family of plug-ins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Family {
    /// Name of the family, for example `queues`.
    pub name: &'static str,
    /// Singular name of a member, for example `queue discipline`.
    pub title: &'static str,
}

/// Description of a member of a family.
#[derive(Clone, Debug, Serialize)]
pub struct Entry {
    /// Name in scenario files.
    pub name: &'static str,
    /// Family of the member.
    #[serde(skip)]
    pub family: Family,
    /// Summary: the first paragraph of `about`.
    pub summary: String,
    /// Description, in paragraphs separated by blank lines.
    pub about: String,
    /// Parameters.
    pub parameters: Vec<Field>,
    /// The path of the module that declares the parameters, such as `aqm_queue::red::shred`.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub module: &'static str,
    /// Name of the queue discipline in Linux's `tc` command, if the entry is a queue that exists in the Linux kernel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tc: Option<String>,
    /// Table of the values, if the entry is a named set of values.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub values: Value,
    /// Sources of the values that differ from those of the family's first member, by the dotted path of each value.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub sources: Vec<(&'static str, &'static str)>,
}

impl Entry {
    /// Creates the entry of a member with a table of parameters.
    pub fn of_parameters<T: Parameters>(name: &'static str, family: Family) -> Self {
        let parameters = T::parameters();
        Self { parameters, module: T::module(), ..Self::of_values(name, family, T::about(), Value::Null) }
    }

    /// Creates the entry of a named set of values.
    pub fn of_values(name: &'static str, family: Family, about: impl Into<String>, values: Value) -> Self {
        let about = about.into();
        let summary = summary(&about);
        Self {
            name,
            family,
            summary,
            about,
            parameters: Vec::new(),
            module: "",
            tc: None,
            values,
            sources: Vec::new(),
        }
    }
}

/// Returns the first paragraph of a documentation text, on one line.
pub fn summary(doc: &str) -> String {
    let first = doc.trim().split("\n\n").next().unwrap_or_default();
    first.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Declares a family: the names of the family and its members, the trait `$build`, which every member's `Config`
/// implements, and the members. Each member is a module that contains a `Config` declared by
/// [`parameters!`](crate::parameters!).
#[macro_export]
macro_rules! registry {
    (
        $(#[$meta:meta])*
        pub enum $name:ident: $build:path, $family:literal = $title:literal {
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
            /// The family.
            pub const FAMILY: $crate::registry::Family =
                $crate::registry::Family { name: $family, title: $title };

            /// The names of the members, in the order of registration.
            pub const NAMES: &'static [&'static str] = &[$($kind),+];

            /// The name of this member.
            pub fn kind(&self) -> &'static str {
                match self { $( Self::$module(_) => $kind, )+ }
            }

            /// Parses a table. The key `kind` names the member, and the other keys are the member's parameters.
            ///
            /// # Errors
            /// Returns an error if the kind is unknown; otherwise, returns the errors of all unknown and invalid
            /// parameters.
            pub fn read(value: ::serde_json::Value) -> Result<Self, $crate::ConfigErrors> {
                let mut table = $crate::TableReader::new(value)?;
                let read = Self::take_from(&mut table);
                table.finish(read)
            }

            /// Reads a member and its parameters from a table that may contain other keys. Returns `None` if the kind
            /// is missing or unknown.
            pub fn take_from(table: &mut $crate::TableReader) -> Option<Self> {
                match table.kind(Self::NAMES)? {
                    $( $kind => {
                        Some(Self::$module(<$module::Config as $crate::Parameters>::take_from(table)))
                    } )+
                    _ => unreachable!("the kind is a registered name"),
                }
            }

            /// Returns the complete table, including all defaults.
            pub fn to_value(&self) -> ::serde_json::Value {
                let mut value = match self {
                    $( Self::$module(config) => ::serde_json::to_value(config), )+
                }
                .expect("parameters can be serialised");
                value["kind"] = self.kind().into();
                value
            }

            /// Returns every member with its default parameters.
            pub fn every() -> Vec<Self> {
                vec![$( Self::$module($module::Config::default()) ),+]
            }

            /// Returns the descriptions of all members.
            pub fn catalog() -> Vec<$crate::registry::Entry> {
                use $crate::registry::Entry;
                vec![$( Entry::of_parameters::<$module::Config>($kind, Self::FAMILY) ),+]
            }
        }

        impl std::ops::Deref for $name {
            type Target = dyn $build;
            fn deref(&self) -> &Self::Target {
                match self { $( Self::$module(config) => config, )+ }
            }
        }

        impl ::serde::Serialize for $name {
            fn serialize<S: ::serde::Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
                self.to_value().serialize(out)
            }
        }

        impl $crate::Parameter for $name {
            fn schema() -> $crate::Schema {
                $crate::Schema { family: Some($family), ..$crate::Schema::of("plug-in") }
            }
            fn read(value: ::serde_json::Value) -> Result<Self, $crate::ConfigErrors> {
                Self::read(value)
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::Parameter;

    mod apple {
        use crate::{Length, parameters};
        parameters! {
            /// A fruit
            /// that keeps.
            ///
            /// Over winter, say.
            pub struct Config {
                /// Length.
                pub length: Length = Length::Packets(3), "a textbook";
                /// Whether it is sweet.
                pub sweet: bool = true, "aqmlab's choice";
            }
        }
        impl super::Fruit for Config {
            fn sweet(&self) -> bool {
                self.sweet
            }
        }
    }

    mod pie {
        use crate::parameters;
        parameters! {
            /// A pie.
            pub struct Config {
                /// Filling.
                pub filling: Option<Box<super::AnyFruit>> = None, "aqmlab's choice: an empty pie";
            }
        }
        impl super::Fruit for Config {
            fn sweet(&self) -> bool {
                true
            }
        }
    }

    /// A fruit.
    pub trait Fruit {
        /// Whether it tastes sweet.
        fn sweet(&self) -> bool;
    }

    registry! {
        /// A fruit of any kind.
        pub enum AnyFruit: Fruit, "fruits" = "fruit" {
            "apple" => apple,
            "pie" => pie,
        }
    }

    #[test]
    fn a_member_reads_what_it_writes() {
        let fruit = AnyFruit::read(json!({"kind": "pie", "filling": {"kind": "apple", "sweet": false}}));
        let fruit = fruit.unwrap();
        assert_eq!(fruit.kind(), "pie");
        assert!(fruit.sweet() && AnyFruit::every().iter().all(|one| one.sweet()));
        assert_eq!(AnyFruit::read(fruit.to_value()).unwrap(), fruit);
        assert_eq!(json!(fruit)["filling"]["length"], "3p");
    }

    #[test]
    fn a_nested_error_has_its_path_and_a_remedy() {
        let problem = |value| AnyFruit::read(value).unwrap_err().to_string();
        assert_eq!(
            problem(json!({"kind": "pie", "filling": {"kind": "apple", "lenght": "3p", "sweet": 1}})),
            "filling.lenght: unknown key `lenght`; did you mean `length`? allowed: `kind`, `length`, `sweet`\n\
             filling.sweet: must be true or false, not 1"
        );
        let filling = |value| problem(json!({"kind": "pie", "filling": value}));
        assert_eq!(
            filling(json!({"kind": "pear"})),
            "filling.kind: unknown kind `pear`; allowed: `apple`, `pie`"
        );
        assert_eq!(
            filling(json!({"kind": "aple", "size": 1})).lines().count(),
            1,
            "the keys of an unknown kind are not checked"
        );
        assert_eq!(filling(json!({})), "filling.kind: is missing: write one of `apple`, `pie`");
        assert_eq!(filling(json!({"kind": 3})), "filling.kind: must be one of `apple`, `pie`, not 3");
        assert_eq!(filling(json!(3)), "filling: must be a table, not 3");
    }

    #[test]
    fn the_catalogue_is_complete() {
        let entry = &AnyFruit::catalog()[0];
        assert_eq!((entry.name, entry.summary.as_str()), ("apple", "A fruit that keeps."));
        assert_eq!(entry.about, "A fruit\n that keeps.\n\n Over winter, say.");
        assert_eq!((entry.family.name, entry.family.title), ("fruits", "fruit"));
        assert_eq!(entry.parameters[0].default, "3p");
        assert_eq!(entry.parameters[0].source, "a textbook");
        assert_eq!(AnyFruit::schema().family, Some("fruits"));
    }
}
