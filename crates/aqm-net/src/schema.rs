//! Descriptions of parameters as data, for documentation.

use serde::Serialize;
use serde_json::Value;

/// Description of a parameter's allowed values.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Schema {
    /// Name of the type: `number`, `whole number`, `true or false`, `text`, `choice`, `table`, `plug-in`, or the name
    /// of a [`Quantity`](crate::Quantity).
    pub r#type: &'static str,
    /// Form of a parameter with several values.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub several: Option<Several>,
    /// Whether the parameter may be omitted although it has no default.
    pub optional: bool,
    /// Units of a quantity, with the smallest unit first.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub units: Vec<&'static str>,
    /// Allowed words of a choice.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub choices: Vec<Choice>,
    /// Family of a plug-in. The key `kind` names a member of the family.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub family: Option<&'static str>,
    /// Parameters of a table.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub fields: Vec<Field>,
}

impl Schema {
    /// Returns the schema of a single value of this type.
    pub fn of(r#type: &'static str) -> Self {
        Self { r#type, ..Self::default() }
    }

    /// Returns the schema of a table with these parameters.
    pub fn table(fields: Vec<Field>) -> Self {
        Self { fields, ..Self::of("table") }
    }
}

/// Forms of parameters with several values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Several {
    /// A list.
    List,
    /// A single value or a list.
    OneOrList,
    /// A table with user-defined names.
    ByName,
}

/// An allowed word of a choice, with its description.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Choice {
    /// The word.
    pub word: &'static str,
    /// Description, as a sentence.
    pub doc: String,
}

/// Description of a parameter.
#[derive(Clone, Debug, Serialize)]
pub struct Field {
    /// Key in a scenario file.
    pub name: &'static str,
    /// Description.
    pub doc: String,
    /// Allowed values.
    #[serde(flatten)]
    pub schema: Schema,
    /// Default value, as written in a scenario; null if there is no default.
    pub default: Value,
    /// Source of the default.
    pub source: &'static str,
}
