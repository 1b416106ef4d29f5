//! Parsing of TOML scenarios.

use crate::ConfigError;
use serde_json::Value;

/// Parses TOML into a JSON value.
///
/// # Errors
/// Returns an error if the text is not valid TOML, or contains values that scenarios do not support (dates, infinities
/// and NaN).
pub fn toml_value(text: &str) -> Result<Value, ConfigError> {
    let table: toml::Table = text.parse().map_err(|error: toml::de::Error| {
        let line = error.span().map(|span| text[..span.start.min(text.len())].matches('\n').count() + 1);
        let path = line.map(|line| format!("line {line}")).unwrap_or_default();
        ConfigError::at(path, error.message().trim().replace('\n', "; "))
    })?;
    plain(toml::Value::Table(table))
}

fn plain(value: toml::Value) -> Result<Value, ConfigError> {
    Ok(match value {
        toml::Value::String(text) => Value::String(text),
        toml::Value::Integer(number) => number.into(),
        toml::Value::Boolean(truth) => truth.into(),
        toml::Value::Float(number) => serde_json::Number::from_f64(number)
            .map(Value::Number)
            .ok_or_else(|| ConfigError::at("", format!("`{number}` is not a finite number")))?,
        toml::Value::Datetime(date) => {
            return Err(ConfigError::at("", format!("`{date}` is a date, which scenarios do not support")));
        }
        toml::Value::Array(values) => {
            let values = values.into_iter().enumerate();
            Value::Array(
                values
                    .map(|(i, value)| plain(value).map_err(|e| e.within(&i.to_string())))
                    .collect::<Result<_, _>>()?,
            )
        }
        toml::Value::Table(table) => {
            let entries = table.into_iter();
            Value::Object(
                entries
                    .map(|(key, value)| plain(value).map(|v| (key.clone(), v)).map_err(|e| e.within(&key)))
                    .collect::<Result<_, _>>()?,
            )
        }
    })
}
