//! The common interface of the packet level, the flow level and trace replay. A level parses a scenario into a plan,
//! and the plan then runs the scenario.
//!
//! A scenario contains the name of its level and is parsed only once. A [`Document`] is a scenario as a JSON value, and
//! [`Document::plan`] parses and checks the whole scenario. A [`Plan`] owns all data that a run needs, so that an
//! invalid scenario cannot make a run fail.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use serde_json::{Value, json};

use crate::digest::Digest;
use crate::registry::Entry;
use crate::table::{self, Table, TableDoc};
use crate::text::toml_value;
use crate::watch::{Stopped, Watch};
use crate::{ConfigError, ConfigErrors, unknown};

/// Contents of the files to which a scenario refers, by file name.
pub type Files = BTreeMap<String, String>;

/// Key in a scenario whose value is the name of the level.
pub const LEVEL: &str = "level";

/// A level of simulation, and the parser of its scenarios.
pub trait Level: Sync {
    /// Returns the name of the level, which is the value of `level` in a scenario.
    fn name(&self) -> &'static str;

    /// Returns the results version of the level. The version is increased whenever the same scenario and seed give
    /// different numbers than before; CHANGELOG states the reasons.
    fn results_version(&self) -> u32;

    /// Returns the allowed keys of a scenario, except `level`.
    fn keys(&self) -> &'static [&'static str];

    /// Returns the names of the files whose contents are needed to parse `scenario`.
    fn files(&self, _scenario: &Value) -> Vec<String> {
        Vec::new()
    }

    /// Resolves the paths of the files that are opened by the run itself. The paths are relative to the scenario's
    /// `folder`.
    fn resolve_paths(&self, _scenario: &mut Value, _folder: &Path) {}

    /// Parses and checks a scenario.
    ///
    /// # Errors
    /// Returns all errors, with their paths and the allowed values.
    fn read(&self, scenario: Value, files: Files) -> Result<Box<dyn Plan>, ConfigErrors>;

    /// Returns the descriptions of all plug-ins of this level.
    fn catalog(&self) -> Vec<Entry>;

    /// Returns the schemas of all tables that a run creates.
    fn tables(&self) -> Vec<TableDoc>;
}

/// A parsed scenario. A plan owns all data that a run needs, and may run more than once.
pub trait Plan: Any + Send + Sync {
    /// Returns the level of the scenario.
    fn level(&self) -> &'static dyn Level;

    /// Returns the complete scenario, including all defaults. Parsing the complete scenario gives the same plan.
    fn to_value(&self) -> Value;

    /// Returns the seed of the random streams.
    fn seed(&self) -> u64;

    /// Returns the same plan with another seed. Only the parts that use random streams are rebuilt.
    ///
    /// # Errors
    /// Returns an error if the scenario is invalid with this seed.
    fn with_seed(&self, seed: u64) -> Result<Box<dyn Plan>, ConfigErrors>;

    /// Returns warnings about parameters that are valid but suspicious. Each warning is a sentence that begins with the
    /// parameter's path.
    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }

    /// Returns the parameters that queues compute themselves, for example a threshold that depends on the link rate.
    /// The result contains the `value` and the `unit` of each parameter, by link name and parameter name.
    fn derived(&self) -> Value {
        json!({})
    }

    /// Returns the digest that identifies a result. The digest is computed from the level, the results version, the
    /// complete scenario with its seed, and the contents of the scenario's files.
    ///
    /// # Errors
    /// Returns an error if a file that a run would open cannot be read.
    fn digest(&self) -> Result<String, Failure>;

    /// Runs the plan. `watch` receives the progress of the run and can stop the run.
    ///
    /// # Errors
    /// Returns an error if `watch` stopped the run, or if a file that the run opens is invalid.
    fn run(&self, watch: &Watch) -> Result<Run, Failure>;
}

/// Returns the digest that identifies a result. `files` contains the names and contents of the scenario's files.
pub fn digest<'a>(plan: &dyn Plan, files: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let level = plan.level();
    let mut digest = Digest::default();
    let mut text = |text: &str| {
        digest.word(text.len() as u64);
        digest.text(text);
    };
    text(level.name());
    text(&level.results_version().to_string());
    text(&plan.to_value().to_string());
    for (name, content) in files {
        text(name);
        text(content);
    }
    digest.finish()
}

/// The result of a run.
#[derive(Debug)]
pub struct Run {
    /// Tables, in the order of the catalogue.
    pub tables: Vec<Table>,
    /// Complete scenario, digest of the result, versions, warnings, and facts derived from the scenario.
    pub manifest: Value,
    /// Number of processed events: at packet level, all events; at flow level, the arrivals and departures of flows;
    /// for a trace, the packet arrivals.
    pub events: u64,
    /// Number of packets sent during the whole run by the first managed link or, for a trace, by the only link; `None`
    /// at flow level.
    pub forwarded: Option<u64>,
}

impl AsRef<[Table]> for Run {
    fn as_ref(&self) -> &[Table] {
        &self.tables
    }
}

impl Run {
    /// Returns a digest of all values of all tables; the digests of two identical runs are equal.
    pub fn digest(&self) -> String {
        table::digest(&self.tables)
    }
}

/// Returns the manifest of a run, which contains the properties that identify the run, and `facts` derived from the
/// scenario.
pub fn manifest(plan: &dyn Plan, digest: String, facts: Value, warnings: Vec<String>) -> Value {
    json!({
        "level": plan.level().name(),
        "scenario": plan.to_value(),
        "seed": plan.seed(),
        "version": env!("CARGO_PKG_VERSION"),
        "results_version": plan.level().results_version(),
        "digest": digest,
        "facts": facts,
        "warnings": warnings,
    })
}

/// The reason why a run has no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The watcher stopped the run.
    Stopped,
    /// A file cannot be read or written, or is not a valid trace. The text contains the file name and the reason.
    File(String),
    /// A parameter is incompatible with the file or with the mode of the run.
    Config(ConfigError),
    /// A workload ended the run.
    Workload {
        /// The workload and the error.
        message: String,
        /// The circumstances of the error; empty if the message is complete.
        report: String,
    },
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stopped => f.write_str("stopped"),
            Self::File(text) | Self::Workload { message: text, .. } => f.write_str(text),
            Self::Config(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Failure {}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        Self::Config(error)
    }
}

impl From<Stopped> for Failure {
    fn from(_: Stopped) -> Self {
        Self::Stopped
    }
}

/// A scenario as a JSON value. So far, only the name of the level has been parsed.
#[derive(Clone)]
pub struct Document {
    level: &'static dyn Level,
    value: Value,
}

impl Document {
    /// Parses TOML. Relative file paths are relative to `folder`.
    ///
    /// # Errors
    /// Returns an error if the text is not valid TOML, contains unsupported values, or names an unknown level.
    pub fn of_toml(text: &str, folder: &Path, levels: &[&'static dyn Level]) -> Result<Self, ConfigErrors> {
        let mut document = Self::of_value(toml_value(text)?, levels)?;
        document.level.resolve_paths(&mut document.value, folder);
        Ok(document)
    }

    /// Parses JSON.
    ///
    /// # Errors
    /// Returns an error if the text is not valid JSON or names an unknown level.
    pub fn of_json(text: &str, levels: &[&'static dyn Level]) -> Result<Self, ConfigErrors> {
        let value = serde_json::from_str(text).map_err(|error| ConfigError::at("", error.to_string()))?;
        Self::of_value(value, levels)
    }

    /// Creates a document from a JSON value. The level of the scenario must be one of `levels`; the first of these
    /// levels is the default.
    ///
    /// # Errors
    /// Returns an error if the level is unknown, or if the scenario contains a key of another level.
    pub fn of_value(value: Value, levels: &[&'static dyn Level]) -> Result<Self, ConfigErrors> {
        let level = level_of(&value, levels)?;
        Ok(Self { level, value })
    }

    /// Returns the level of the scenario.
    pub fn level(&self) -> &'static dyn Level {
        self.level
    }

    /// Returns the scenario as it was written, without defaults.
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// Returns the names of the files whose contents are needed to parse the scenario.
    pub fn files(&self) -> Vec<String> {
        self.level.files(&self.value)
    }

    /// Parses and checks the scenario. `files` contains the contents of the files to which the scenario refers, by file
    /// name.
    ///
    /// # Errors
    /// Returns all errors, with their paths and the allowed values.
    pub fn plan(&self, files: Files) -> Result<Box<dyn Plan>, ConfigErrors> {
        self.level.read(self.value.clone(), files)
    }
}

fn level_of(value: &Value, levels: &[&'static dyn Level]) -> Result<&'static dyn Level, ConfigError> {
    let Some(table) = value.as_object() else {
        return Err(ConfigError::at("", "a scenario must be a table"));
    };
    let names: Vec<&str> = levels.iter().map(|level| level.name()).collect();
    let given = match table.get(LEVEL) {
        None => None,
        Some(Value::String(level)) => Some(level),
        Some(_) => return Err(ConfigError::at(LEVEL, format!("must be one of {}", names.join(", ")))),
    };
    let chosen = match given {
        None => Some(levels[0]),
        Some(name) => levels.iter().copied().find(|level| level.name() == name),
    };
    let Some(chosen) = chosen else {
        return Err(ConfigError::at(LEVEL, unknown("level", given.map_or("", String::as_str), &names)));
    };
    let foreign =
        |level: &dyn Level| table.keys().find(|key| *key != LEVEL && !level.keys().contains(&key.as_str()));
    if let Some(key) = foreign(chosen)
        && let Some(other) = levels.iter().find(|other| foreign(**other).is_none())
    {
        let (here, there) = (chosen.name(), other.name());
        let state = if given.is_none() { "defaults to" } else { "is" };
        let problem = format!(
            "{state} `{here}`, but the key `{key}` belongs to the level `{there}`: set {LEVEL} = \"{there}\""
        );
        return Err(ConfigError::at(LEVEL, problem));
    }
    Ok(chosen)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A minimal level for tests, which cannot run a scenario.
    struct Quiet(&'static str, &'static [&'static str]);

    impl Level for Quiet {
        fn name(&self) -> &'static str {
            self.0
        }
        fn results_version(&self) -> u32 {
            1
        }
        fn keys(&self) -> &'static [&'static str] {
            self.1
        }
        fn read(&self, _: Value, _: Files) -> Result<Box<dyn Plan>, ConfigErrors> {
            Err(ConfigError::at("", "this level reads no scenarios").into())
        }
        fn catalog(&self) -> Vec<Entry> {
            Vec::new()
        }
        fn tables(&self) -> Vec<TableDoc> {
            Vec::new()
        }
    }

    const LEVELS: [&dyn Level; 2] =
        [&Quiet("packet", &["duration", "links"]), &Quiet("flow", &["duration", "link"])];

    fn level(value: Value) -> Result<&'static str, String> {
        let document = Document::of_value(value, &LEVELS).map_err(|errors| errors.to_string())?;
        Ok(document.level().name())
    }

    #[test]
    fn a_scenario_names_its_level_and_the_default_is_packet() {
        assert_eq!(level(json!({"duration": "1s", "links": {}})), Ok("packet"));
        assert_eq!(level(json!({"level": "flow", "link": {}})), Ok("flow"));
        assert_eq!(
            level(json!({"level": "packet", "lnks": {}})),
            Ok("packet"),
            "unknown keys are not reported here"
        );
    }

    #[test]
    fn a_wrong_level_is_reported_with_the_right_one() {
        assert_eq!(
            level(json!({"duration": "1s", "link": {}})).unwrap_err(),
            "level: defaults to `packet`, but the key `link` belongs to the level `flow`: set level = \"flow\""
        );
        assert_eq!(
            level(json!({"level": "flow", "links": {}})).unwrap_err(),
            "level: is `flow`, but the key `links` belongs to the level `packet`: set level = \"packet\""
        );
        let unknown = level(json!({"level": "flows"})).unwrap_err();
        assert!(unknown.starts_with("level: unknown level `flows`; did you mean `flow`?"), "{unknown}");
        assert_eq!(level(json!({"level": 3})).unwrap_err(), "level: must be one of packet, flow");
        assert_eq!(level(json!([])).unwrap_err(), "a scenario must be a table");
    }
}
