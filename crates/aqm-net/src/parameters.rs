//! Declaration of tables of parameters.
//!
//! [`parameters!`](crate::parameters!) lists each parameter once, with its description, default and source. The types
//! of parameters are in `values.rs`. A table that cannot be declared with the macro reads its keys one by one with a
//! [`TableReader`].

use crate::{Field, Parameter, TableReader};

/// A table of parameters. The macro [`parameters!`](crate::parameters!) implements this trait.
pub trait Parameters: Parameter + Default {
    /// Returns the description of the table, in one or two sentences.
    fn about() -> &'static str;

    /// The path of the module that declares the table, such as `aqm_queue::red::shred`.
    fn module() -> &'static str;

    /// Returns the descriptions of the parameters, in the order of declaration, with the values of this table as
    /// defaults.
    fn fields(&self) -> Vec<Field>;

    /// Replaces the values of this table by those of `table`, which may contain other keys. A value does not change if
    /// its key is missing or invalid.
    fn update_from(&mut self, table: &mut TableReader);

    /// Returns the descriptions of the parameters, in the order of declaration.
    fn parameters() -> Vec<Field> {
        Self::default().fields()
    }

    /// Reads the table's parameters from a table that may contain other keys. Missing or invalid parameters are set to
    /// their defaults.
    fn take_from(table: &mut TableReader) -> Self {
        let mut read = Self::default();
        read.update_from(table);
        read
    }
}

/// Declares a table of parameters: the description, type and default of each field, and the source of the default. All
/// fields are public and optional, and unknown keys are rejected.
///
/// Parameters that several tables share (a group) are declared once, as a separate table. A table includes a group by
/// means of a field with `#[serde(flatten)]` and without a source. The keys of the group then appear among the keys of
/// the owner, with the defaults that the owner sets for the group.
/// [`check_effect`](crate::ErrorCollector::check_effect) compares values with the defaults of the table that it
/// receives, so an owner that changes the default of a parameter must check this parameter itself.
///
/// ```
/// # mod example {
/// use aqm_net::parameters;
///
/// parameters! {
///     /// Slow start.
///     pub struct SlowStart {
///         /// Window above which the window grows more slowly, in segments.
///         pub max_ssthresh: u32 = 100, "RFC 3742, section 2";
///     }
/// }
///
/// parameters! {
///     /// A congestion control.
///     pub struct Config {
///         /// Growth per acknowledgement, in segments.
///         pub increase: f64 = 0.01, "Kelly 2003";
///         /// Slow start.
///         #[serde(flatten)]
///         pub slow_start: SlowStart = SlowStart { max_ssthresh: 50 };
///     }
/// }
/// # }
/// # use aqm_net::Parameter;
/// # use serde_json::json;
/// # use example::Config;
/// let config = Config::read(json!({ "increase": 0.02 })).unwrap();
/// assert_eq!(json!(config), json!({ "increase": 0.02, "max_ssthresh": 50 }));
/// ```
///
/// A complete scenario lists all parameters, and the digest of a result depends on the complete scenario. An optional
/// parameter that was added later is therefore serialised only if it is set (serde's `skip_serializing_if`), so that
/// older results keep their digests.
#[macro_export]
macro_rules! parameters {
    (
        $(#[doc = $about:literal])+
        pub struct $name:ident {
            $(
                $(#[doc = $doc:literal])+ $(#[serde($($serde:tt)+)])?
                pub $field:ident : $type:ty = $default:expr $(, $source:literal)?;
            )*
        }
    ) => {
        $(#[doc = $about])+
        #[derive(Clone, Debug, PartialEq, ::serde::Serialize)]
        pub struct $name {
            $( $(#[doc = $doc])+ $(#[serde($($serde)+)])? pub $field: $type, )*
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
            fn module() -> &'static str {
                module_path!()
            }
            fn fields(&self) -> Vec<$crate::Field> {
                let lines: Vec<Vec<$crate::Field>> = vec![$( $crate::parameter!(
                    { $($($serde)+)? } { $($source)? } describe(self, $field: $type, $($doc)+)
                ), )*];
                lines.concat()
            }
            fn update_from(&mut self, table: &mut $crate::TableReader) {
                $( $crate::parameter!(
                    { $($($serde)+)? } { $($source)? } read(self, table, $field: $type)
                ); )*
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

/// Describes or reads a line of [`parameters!`](crate::parameters!): a group, or a parameter with a source.
#[doc(hidden)]
#[macro_export]
macro_rules! parameter {
    ({ flatten } {} describe($table:ident, $field:ident : $type:ty, $($doc:literal)+)) => {
        <$type as $crate::Parameters>::fields(&$table.$field)
    };
    ({ flatten } {} read($table:ident, $reader:ident, $field:ident : $type:ty)) => {
        <$type as $crate::Parameters>::update_from(&mut $table.$field, $reader)
    };
    (
        { $(skip_serializing_if = $skip:literal)? } { $source:literal }
        describe($table:ident, $field:ident : $type:ty, $($doc:literal)+)
    ) => {
        vec![$crate::Field {
            // A field may have the name of a Rust keyword.
            name: stringify!($field).trim_start_matches("r#"),
            doc: [$($doc.trim()),+].join(" "),
            schema: <$type as $crate::Parameter>::schema(),
            default: ::serde_json::to_value(&$table.$field).expect("a default can be serialised"),
            source: $source,
        }]
    };
    (
        { $(skip_serializing_if = $skip:literal)? } { $source:literal }
        read($table:ident, $reader:ident, $field:ident : $type:ty)
    ) => {
        if let Some(value) = $reader.take::<$type>(stringify!($field).trim_start_matches("r#")) {
            $table.$field = value;
        }
    };
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::{Value, json};

    use super::*;
    use crate::{ErrorCollector, Length, Span, choices};

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
        /// A tree.
        pub struct Tree {
            /// Height.
            pub height: u32 = 3, "aqmlab's choice";
            /// Year in which the tree was discovered.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub known: Option<u32> = None, "aqmlab's choice";
        }
    }

    #[test]
    fn an_optional_parameter_is_serialised_only_if_it_is_set() {
        let written = |tree: Tree| serde_json::to_value(tree).unwrap();
        assert_eq!(written(Tree::default()), json!({ "height": 3 }));
        assert_eq!(written(Tree { known: Some(1), ..Tree::default() }), json!({ "height": 3, "known": 1 }));
        assert_eq!(Tree::read(json!({ "known": 7 })).unwrap().known, Some(7));
        assert_eq!(Tree::parameters().len(), 2);
    }

    parameters! {
        /// A fruit.
        pub struct Apple {
            /// Colour.
            pub colour: Colour = Colour::Green, "aqmlab's choice";
            /// Time of consumption.
            pub eaten: Option<Span> = None, "aqmlab's choice";
            /// Seeds.
            pub seeds: Vec<Seed> = vec![Seed::default()], "aqmlab's choice";
            /// The stalk.
            pub stalk: Stalk = Stalk::default(), "aqmlab's choice";
            /// Worms, by name.
            pub worms: BTreeMap<String, u32> = BTreeMap::new(), "aqmlab's choice";
            /// Tastes.
            pub r#match: Vec<String> = Vec::new(), "aqmlab's choice";
        }
    }

    parameters! {
        /// A stalk.
        pub struct Stalk {
            /// Length.
            pub length: Length = Length::Packets(2), "a textbook";
            /// Width.
            pub width: Option<Length> = None, "aqmlab's choice";
        }
    }

    parameters! {
        /// A seed.
        pub struct Seed {
            /// Length.
            pub length: Length = Length::Packets(1), "a textbook";
            /// Weight.
            pub weight: f64 = 0.5, "aqmlab's choice";
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
    fn none_means_no_value_unless_the_type_accepts_the_word() {
        assert_eq!(Option::<Span>::read(json!("none")).unwrap(), None);
        assert_eq!(Option::<u32>::read(json!("none")).unwrap(), None);
        assert_eq!(Option::<String>::read(json!("none")).unwrap().as_deref(), Some("none"));
        assert!(Option::<u32>::read(json!("nought")).is_err());
        assert!(u32::read(json!("none")).is_err());
    }

    #[test]
    fn all_errors_are_reported_with_paths_and_unknown_keys_first() {
        let messages = problems(json!({
            "colour": "sky-bleu",
            "seeds": [{}, {"length": "1q", "weight": "heavy"}, 3],
            "stalk": {"lenght": "1p", "width": true},
            "worms": {"one": 1, "no such": 2, "two": -1},
            "colr": 1,
        }));
        assert_eq!(
            messages,
            [
                "stalk.lenght: unknown key `lenght`; did you mean `length`? allowed: `length`, `width`",
                "colr: unknown key `colr`; did you mean `colour`? allowed: `colour`, `eaten`, `seeds`, `stalk`, \
                 `worms`, `match`",
                "colour: unknown word `sky-bleu`; did you mean `sky-blue`? allowed: `green`, `sky-blue`",
                "seeds.1.length: `1q`: unknown unit `q`, expected p, B, kB, MB",
                "seeds.1.weight: must be a number, not \"heavy\"",
                "seeds.2: must be a table, not 3",
                "stalk.width: must be text with a unit (packets or bytes: p, B, kB, MB), not true",
                "worms.no such: a name must consist of 1 to 64 letters, digits, `-`, `_` or `+`",
                "worms.two: must be a whole number from 0 to 4294967295, not -1",
            ]
        );
        assert_eq!(problems(json!([])), ["must be a table, not a list"]);
    }

    #[test]
    fn a_parameter_without_effect_is_rejected_unless_it_has_its_default() {
        let without = |written: Value, has_effect: bool| -> Vec<String> {
            let apple = Apple::read(written).unwrap();
            let mut errors = ErrorCollector::default();
            errors.check(apple.eaten != Some(Span::ZERO), "eaten", "must be later");
            errors.check_effect(has_effect, &apple, &["colour", "eaten"], "without a tree");
            let errors = errors.finish(()).err().into_iter().flatten();
            errors.filter(|error| error.is_without_effect()).map(|error| error.to_string()).collect()
        };
        let red = json!({"colour": "sky-blue", "worms": {"one": 1}});
        assert_eq!(without(red.clone(), false), ["colour: has no effect without a tree: leave it out"]);
        assert!(without(red, true).is_empty());
        assert!(without(json!({"colour": "green"}), false).is_empty(), "the default is accepted");
        assert!(without(json!({"eaten": "0s"}), false).is_empty(), "the parameter has another error");
        assert_eq!(without(json!({"eaten": "1s", "colour": "sky-blue"}), false).len(), 2);
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
        let paths: Vec<&str> = errors.iter().map(|error| error.path.as_str()).collect();
        assert_eq!(paths, ["seed.wieght", "widht", "length"]);
    }

    parameters! {
        /// Properties that bushes share.
        pub struct Growth {
            /// Height.
            pub height: u32 = 3, "a textbook";
            /// The stalk.
            pub stalk: Stalk = Stalk::default(), "a textbook";
            /// Year in which the bush was discovered.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub known: Option<u32> = None, "aqmlab's choice";
        }
    }

    parameters! {
        /// A bush.
        pub struct Bush {
            /// Colour.
            pub colour: Colour = Colour::Green, "aqmlab's choice";
            /// Growth of the bush, which is lower than that of other plants.
            #[serde(flatten)]
            pub growth: Growth = Growth { height: 2, ..Growth::default() };
            /// Berries.
            pub berries: u32 = 0, "aqmlab's choice";
        }
    }

    parameters! {
        /// A hedge.
        pub struct Hedge {
            /// Its bushes.
            #[serde(flatten)]
            pub bush: Bush = Bush { berries: 7, ..Bush::default() };
        }
    }

    #[test]
    fn the_keys_of_a_group_stand_among_those_of_the_owner_with_the_owners_defaults() {
        let bush = Bush::read(json!({"berries": 5, "stalk": {"length": "7p"}})).unwrap();
        assert_eq!((bush.growth.height, bush.growth.stalk.length), (2, Length::Packets(7)));
        let written =
            json!({"colour": "green", "height": 2, "stalk": {"length": "7p", "width": null}, "berries": 5});
        assert_eq!(json!(bush), written);
        assert_eq!(Bush::read(written).unwrap(), bush);
        assert_eq!(Bush::read(json!({"known": 7})).unwrap().growth.known, Some(7));
        assert_eq!(Bush::read(json!({"height": 3})).unwrap().growth, Growth::default());
        // A group may contain groups.
        let hedge = Hedge::read(json!({"colour": "sky-blue"})).unwrap();
        assert_eq!((hedge.bush.berries, hedge.bush.growth.height), (7, 2));
        assert_eq!(Hedge::read(json!(hedge)).unwrap(), hedge);
    }

    #[test]
    fn errors_in_a_group_have_the_paths_of_the_owners_keys() {
        let messages = |value| -> Vec<String> {
            Bush::read(value).unwrap_err().iter().map(ToString::to_string).collect()
        };
        assert_eq!(
            messages(json!({"berries": -1, "heigth": 1, "stalk": {"width": true}, "length": "1p"})),
            [
                "heigth: unknown key `heigth`; did you mean `height`? allowed: `colour`, `height`, `stalk`, `known`, \
                 `berries`",
                "length: unknown key `length`; did you mean `stalk.length`? allowed: `colour`, `height`, `stalk`, \
                 `known`, `berries`",
                "stalk.width: must be text with a unit (packets or bytes: p, B, kB, MB), not true",
                "berries: must be a whole number from 0 to 4294967295, not -1",
            ]
        );
        assert_eq!(
            messages(json!({"growth": {}})),
            ["growth: unknown key `growth`; allowed: `colour`, `height`, `stalk`, `known`, `berries`"]
        );
    }

    #[test]
    fn the_schema_of_a_group_is_part_of_the_owners_with_the_owners_defaults() {
        let described = |fields: Vec<Field>| -> Vec<(&str, Value, &str)> {
            fields.into_iter().map(|field| (field.name, field.default, field.source)).collect()
        };
        assert_eq!(
            described(Bush::parameters()),
            [
                ("colour", json!("green"), "aqmlab's choice"),
                ("height", json!(2), "a textbook"),
                ("stalk", json!({"length": "2p", "width": null}), "a textbook"),
                ("known", Value::Null, "aqmlab's choice"),
                ("berries", json!(0), "aqmlab's choice"),
            ]
        );
        assert_eq!(described(Growth::parameters())[0].1, json!(3));
        assert_eq!(described(Hedge::parameters())[4].1, json!(7));
    }

    #[test]
    fn a_parameter_of_a_group_has_no_effect_if_it_differs_from_the_owners_default() {
        let warned = |value| {
            let bush = Bush::read(value).unwrap();
            let mut errors = ErrorCollector::default();
            errors.check_effect(false, &bush, &["height"], "in winter");
            !errors.is_empty()
        };
        assert_eq!([json!({}), json!({"height": 2}), json!({"height": 3})].map(warned), [false, false, true]);
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
