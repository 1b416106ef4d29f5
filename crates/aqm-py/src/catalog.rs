//! Everything that has a name, as data for documentation.

use aqm_net::registry::{Family, summary};
use aqm_net::table::TableDoc;
use pyo3::pyfunction;
use serde_json::{Value, json};

use crate::STAGES;

const TABLES: Family = Family { name: "tables", title: "table" };

/// The families of everything that has a name, as JSON, in the order in which documentation shows them: name, title
/// and members. A member has a name, says what it is about, in short and in full, and has parameters (of a table,
/// columns) or values.
#[pyfunction]
pub(crate) fn catalog() -> String {
    let mut families: Vec<(Family, Vec<Value>)> = Vec::new();
    for entry in STAGES.iter().flat_map(|stage| stage.catalog()) {
        match families.iter_mut().find(|(family, _)| *family == entry.family) {
            Some((_, members)) => members.push(json!(entry)),
            None => families.push((entry.family, vec![json!(entry)])),
        }
    }
    families.push((TABLES, tables()));
    let families = families
        .into_iter()
        .map(|(Family { name, title }, members)| json!({ "name": name, "title": title, "members": members }));
    Value::Array(families.collect()).to_string()
}

fn tables() -> Vec<Value> {
    let member = |TableDoc { name, doc, columns }: TableDoc| json!({ "name": name, "summary": summary(doc), "about": doc.trim(), "parameters": columns });
    STAGES.iter().flat_map(|stage| stage.tables()).map(member).collect()
}
