//! What may be written in a scenario, as data that documentation shows.

use serde::Serialize;
use serde_json::Value;

/// What may be written for a parameter, as documentation shows it.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Schema {
    /// What it is: `number`, `whole number`, `true or false`, `text`, `choice`, `table`, `plug-in`, or the name of a
    /// [`Quantity`](crate::Quantity).
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
