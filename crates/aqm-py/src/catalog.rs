//! The catalogue of plug-ins, scenario sections, tables and other named items, as data for the documentation.

use aqm_net::registry::{Family, summary};
use aqm_net::table::TableDoc;
use pyo3::pyfunction;
use serde_json::{Value, json};

use crate::LEVELS;

const TABLES: Family = Family { name: "tables", title: "table" };

/// Returns the families of named items as JSON, in the order of the documentation. A family has a name, a title and
/// members. A member has a name, a summary, a full description, and either parameters (columns, if the member is a
/// table) or values.
#[pyfunction]
pub(crate) fn catalog() -> String {
    let mut families: Vec<(Family, Vec<Value>)> = Vec::new();
    for entry in LEVELS.iter().flat_map(|level| level.catalog()) {
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
    LEVELS.iter().flat_map(|level| level.tables()).map(member).collect()
}
