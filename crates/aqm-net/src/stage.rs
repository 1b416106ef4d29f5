//! What the packet level, the flow level and traces have in common: a stage reads a scenario into a plan, and a plan
//! runs.
//!
//! A scenario names its level and is read once: [`Document`] is its text as a plain value, [`Document::plan`] reads and
//! checks all of it, and a [`Plan`] owns whatever a run needs, so that nothing of the scenario can be wrong any more.

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

/// The contents of the files that a scenario names, by name.
pub type Files = BTreeMap<String, String>;

/// The key of a scenario that names its level.
pub const LEVEL: &str = "level";

/// A level of detail at which traffic meets a queue, and how scenarios of that level are read.
pub trait Stage: Sync {
    /// What a scenario's `level` calls it.
    fn level(&self) -> &'static str;

    /// Raised whenever the same scenario and seed give other numbers than before; the CHANGELOG says why.
    fn results_version(&self) -> u32;

    /// The keys of a scenario, beside `level`.
    fn keys(&self) -> &'static [&'static str];

    /// The names of the files whose contents are needed to read `scenario`.
    fn files(&self, _scenario: &Value) -> Vec<String> {
        Vec::new()
    }

    /// Turns the paths of files that a run opens by itself into paths from `folder`, where the scenario lies.
    fn look_in(&self, _scenario: &mut Value, _folder: &Path) {}

    /// Reads and checks a scenario.
    ///
    /// # Errors
    /// Everything that is wrong, where, and what is allowed.
    fn read(&self, scenario: Value, files: Files) -> Result<Box<dyn Plan>, ConfigErrors>;

    /// Everything that has a name at this level, as documentation shows it.
    fn catalog(&self) -> Vec<Entry>;

    /// The schema of every table that a run leaves behind.
    fn tables(&self) -> Vec<TableDoc>;
}

/// A scenario that was read: it owns whatever a run needs, and may run more than once.
pub trait Plan: Any + Send + Sync {
    /// The level of the scenario.
    fn stage(&self) -> &'static dyn Stage;

    /// The scenario in full, every default filled in; reading it gives the same plan.
    fn to_value(&self) -> Value;

    /// The seed of its random streams.
    fn seed(&self) -> u64;

    /// The same with another seed; only what draws from random streams is made anew.
    ///
    /// # Errors
    /// If the scenario does not allow that seed.
    fn with_seed(&self, seed: u64) -> Result<Box<dyn Plan>, ConfigErrors>;

    /// What is allowed but suspicious, a sentence each that begins with the place.
    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }

    /// What queues choose by themselves, such as a threshold that follows from the rate of the line: by link and
    /// parameter, each a `value` with its `unit`.
    fn derived(&self) -> Value {
        json!({})
    }

    /// The name of a result: a digest of the level, the results version, the scenario in full with its seed, and
    /// the contents of its files.
    ///
    /// # Errors
    /// If a file that a run would open cannot be read.
    fn digest(&self) -> Result<String, Failure>;

    /// Runs it; `watch` sees how far it is, and can stop it.
    ///
    /// # Errors
    /// If `watch` stopped it, or a file that it opens is not what it should be.
    fn run(&self, watch: &Watch) -> Result<Run, Failure>;
}

/// The digest that names a result; `files` are names and contents.
pub fn digest<'a>(plan: &dyn Plan, files: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let stage = plan.stage();
    let mut digest = Digest::default();
    let mut text = |text: &str| {
        digest.word(text.len() as u64);
        digest.text(text);
    };
    text(stage.level());
    text(&stage.results_version().to_string());
    text(&plan.to_value().to_string());
    for (name, content) in files {
        text(name);
        text(content);
    }
    digest.finish()
}

/// What a run leaves behind.
#[derive(Debug)]
pub struct Run {
    /// The tables, in the order of the catalogue.
    pub tables: Vec<Table>,
    /// The scenario in full, its digest, versions, warnings, and what follows from it and is worth knowing.
    pub manifest: Value,
    /// Events handled; at flow level, flows that came and flows that left; of a trace, packets that came.
    pub events: u64,
    /// Packets sent by the first managed link, or by that of a trace, over the whole run; at flow level there are
    /// none.
    pub forwarded: Option<u64>,
}

impl AsRef<[Table]> for Run {
    fn as_ref(&self) -> &[Table] {
        &self.tables
    }
}

impl Run {
    /// A digest of every value of every table: equal for equal runs.
    pub fn digest(&self) -> String {
        table::digest(&self.tables)
    }
}

/// The manifest of a run: what names it, and `facts` that follow from the scenario.
pub fn manifest(plan: &dyn Plan, digest: String, facts: Value, warnings: Vec<String>) -> Value {
    json!({
        "level": plan.stage().level(),
        "scenario": plan.to_value(),
        "seed": plan.seed(),
        "version": env!("CARGO_PKG_VERSION"),
        "results_version": plan.stage().results_version(),
        "digest": digest,
        "facts": facts,
        "warnings": warnings,
    })
}

/// Why a run has no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Whoever watches stopped it.
    Stopped,
    /// A file cannot be read or written, or is no trace: which file and why.
    File(String),
    /// A parameter does not fit the file that was read, or this way of running.
    Config(ConfigError),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stopped => f.write_str("stopped"),
            Self::File(problem) => f.write_str(problem),
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

/// The text of a scenario as a plain value, of which only the level has been read.
#[derive(Clone)]
pub struct Document {
    stage: &'static dyn Stage,
    value: Value,
}

impl Document {
    /// Reads TOML; paths of files are from `folder`.
    ///
    /// # Errors
    /// If it is no TOML, holds what no scenario can, or its level is unknown.
    pub fn of_toml(text: &str, folder: &Path, stages: &[&'static dyn Stage]) -> Result<Self, ConfigErrors> {
        let mut document = Self::of_value(toml_value(text)?, stages)?;
        document.stage.look_in(&mut document.value, folder);
        Ok(document)
    }

    /// Reads JSON.
    ///
    /// # Errors
    /// If it is no JSON, or its level is unknown.
    pub fn of_json(text: &str, stages: &[&'static dyn Stage]) -> Result<Self, ConfigErrors> {
        let value = serde_json::from_str(text).map_err(|error| ConfigError::at("", error.to_string()))?;
        Self::of_value(value, stages)
    }

    /// Takes a plain value; its level is one of `stages`, and the first of them if it does not say.
    ///
    /// # Errors
    /// If the level is unknown, or what the scenario holds belongs to another level.
    pub fn of_value(value: Value, stages: &[&'static dyn Stage]) -> Result<Self, ConfigErrors> {
        let stage = stage_of(&value, stages)?;
        Ok(Self { stage, value })
    }

    /// What a scenario's `level` calls its stage.
    pub fn stage(&self) -> &'static dyn Stage {
        self.stage
    }

    /// What was written.
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// The names of the files whose contents are needed to read it.
    pub fn files(&self) -> Vec<String> {
        self.stage.files(&self.value)
    }

    /// Reads and checks all of it; `files` holds the contents of the files it names, by name.
    ///
    /// # Errors
    /// Everything that is wrong, where, and what is allowed.
    pub fn plan(&self, files: Files) -> Result<Box<dyn Plan>, ConfigErrors> {
        self.stage.read(self.value.clone(), files)
    }
}

fn stage_of(value: &Value, stages: &[&'static dyn Stage]) -> Result<&'static dyn Stage, ConfigError> {
    let Some(table) = value.as_object() else {
        return Err(ConfigError::at("", "a scenario must be a table"));
    };
    let levels: Vec<&str> = stages.iter().map(|stage| stage.level()).collect();
    let given = match table.get(LEVEL) {
        None => None,
        Some(Value::String(level)) => Some(level),
        Some(_) => return Err(ConfigError::at(LEVEL, format!("must be one of {}", levels.join(", ")))),
    };
    let chosen = match given {
        None => Some(stages[0]),
        Some(level) => stages.iter().copied().find(|stage| stage.level() == level),
    };
    let Some(chosen) = chosen else {
        return Err(ConfigError::at(LEVEL, unknown("level", given.map_or("", String::as_str), &levels)));
    };
    let foreign =
        |stage: &dyn Stage| table.keys().find(|key| *key != LEVEL && !stage.keys().contains(&key.as_str()));
    if let Some(key) = foreign(chosen)
        && let Some(other) = stages.iter().find(|other| foreign(**other).is_none())
    {
        let (here, there) = (chosen.level(), other.level());
        let said = if given.is_none() { "left out means" } else { "is" };
        let problem = format!(
            "{said} `{here}`, but `{key}` belongs to the level `{there}`: write {LEVEL} = \"{there}\""
        );
        return Err(ConfigError::at(LEVEL, problem));
    }
    Ok(chosen)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A level at which nothing happens.
    struct Quiet(&'static str, &'static [&'static str]);

    impl Stage for Quiet {
        fn level(&self) -> &'static str {
            self.0
        }
        fn results_version(&self) -> u32 {
            1
        }
        fn keys(&self) -> &'static [&'static str] {
            self.1
        }
        fn read(&self, _: Value, _: Files) -> Result<Box<dyn Plan>, ConfigErrors> {
            Err(ConfigError::at("", "nothing can be read").into())
        }
        fn catalog(&self) -> Vec<Entry> {
            Vec::new()
        }
        fn tables(&self) -> Vec<TableDoc> {
            Vec::new()
        }
    }

    const STAGES: [&dyn Stage; 2] =
        [&Quiet("packet", &["duration", "links"]), &Quiet("flow", &["duration", "link"])];

    fn level(value: Value) -> Result<&'static str, String> {
        let document = Document::of_value(value, &STAGES).map_err(|errors| errors.to_string())?;
        Ok(document.stage().level())
    }

    #[test]
    fn a_scenario_says_its_level_and_is_of_packets_if_it_does_not() {
        assert_eq!(level(json!({"duration": "1s", "links": {}})), Ok("packet"));
        assert_eq!(level(json!({"level": "flow", "link": {}})), Ok("flow"));
        assert_eq!(level(json!({"level": "packet", "lnks": {}})), Ok("packet"), "a slip is not told here");
    }

    #[test]
    fn a_wrong_level_is_told_with_the_right_one() {
        assert_eq!(
            level(json!({"duration": "1s", "link": {}})).unwrap_err(),
            "level: left out means `packet`, but `link` belongs to the level `flow`: write level = \"flow\""
        );
        assert_eq!(
            level(json!({"level": "flow", "links": {}})).unwrap_err(),
            "level: is `flow`, but `links` belongs to the level `packet`: write level = \"packet\""
        );
        let unknown = level(json!({"level": "flows"})).unwrap_err();
        assert!(unknown.starts_with("level: unknown level `flows`; did you mean `flow`?"), "{unknown}");
        assert_eq!(level(json!({"level": 3})).unwrap_err(), "level: must be one of packet, flow");
        assert_eq!(level(json!([])).unwrap_err(), "a scenario must be a table");
    }
}
