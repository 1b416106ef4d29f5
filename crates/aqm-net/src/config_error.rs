//! Errors in a configuration. A [`ConfigError`] is one error with its path, and [`ConfigErrors`] contains all errors of
//! a table.

use std::fmt;

use serde::Serialize;

use crate::{Field, Parameters};

/// An error in a configuration, with its path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// Path of the invalid field, for example `bottleneck.queue.max_th`; may be empty.
    pub path: String,
    /// Description of the error, and the allowed values.
    pub problem: String,
    kind: Kind,
}

/// Kinds of errors that need special treatment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// The path is an unknown key. Errors of this kind are reported first, because a misspelt key is also missing under
    /// its correct name, which causes another error.
    UnknownKey,
    /// The parameter has no effect in this setting. A sweep omits a parameter in all runs in which the parameter has no
    /// effect.
    WithoutEffect,
    Other,
}

impl ConfigError {
    /// Creates an error for `path` with the description `problem`.
    pub fn at(path: impl Into<String>, problem: impl Into<String>) -> Self {
        Self { path: path.into(), problem: problem.into(), kind: Kind::Other }
    }

    /// Creates the error that reports that the parameter at `path` has no effect under `condition`, for example
    /// `without ecn`.
    pub fn without_effect(path: impl Into<String>, condition: impl fmt::Display) -> Self {
        let problem = format!("has no effect {condition}: leave it out");
        Self { path: path.into(), problem, kind: Kind::WithoutEffect }
    }

    /// Returns whether the error reports a parameter that has no effect in this setting.
    pub fn is_without_effect(&self) -> bool {
        self.kind == Kind::WithoutEffect
    }

    /// Returns an error unless the condition is true, for example `ConfigError::unless(gain <= 1.0, "gain",
    /// format_args!("must be at most 1 (got {gain})"))?`.
    ///
    /// # Errors
    /// Returns the error `problem` at `path` if the condition is false.
    pub fn unless(condition: bool, path: impl Into<String>, problem: impl fmt::Display) -> Result<(), Self> {
        if condition { Ok(()) } else { Err(Self::at(path, problem.to_string())) }
    }

    /// Creates the error for an unknown key of a table whose allowed keys are `allowed`. `inner` contains the keys of
    /// the table's sub-tables, as pairs of a sub-table's key and an inner key.
    pub(crate) fn unknown_key(key: &str, allowed: &[&str], inner: &[[&str; 2]]) -> Self {
        let same = || named_like(key, inner, |given, name| given == name);
        let near = || named_like(key, inner, |given, name| nearest(given, &[name]).is_some());
        let meant = same().or_else(|| nearest(key, allowed).map(quoted)).or_else(near);
        Self { path: key.to_owned(), problem: refusal("key", key, meant, allowed), kind: Kind::UnknownKey }
    }

    /// Prepends `outer` to the error's path.
    #[must_use]
    pub fn within(mut self, outer: &str) -> Self {
        self.path = match (outer, self.path.as_str()) {
            ("", path) | (path, "") => path.to_owned(),
            (outer, inner) => format!("{outer}.{inner}"),
        };
        self
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() {
            f.write_str(&self.problem)
        } else {
            write!(f, "{}: {}", self.path, self.problem)
        }
    }
}

impl std::error::Error for ConfigError {}

/// All errors of a table; there is at least one. Errors about unknown keys come first, and the other errors follow in
/// the order in which they were detected. A list of errors is created from a [`ConfigError`] or by an
/// [`ErrorCollector`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigErrors(Vec<ConfigError>);

impl ConfigErrors {
    /// Returns the first error.
    pub fn first(&self) -> &ConfigError {
        &self.0[0]
    }

    /// Returns an iterator over all errors.
    pub fn iter(&self) -> std::slice::Iter<'_, ConfigError> {
        self.0.iter()
    }

    /// Prepends `outer` to the paths of all errors.
    #[must_use]
    pub fn within(self, outer: &str) -> Self {
        self.map(|error| error.within(outer))
    }

    /// Applies a function to all errors.
    #[must_use]
    pub fn map(self, change: impl FnMut(ConfigError) -> ConfigError) -> Self {
        Self(self.0.into_iter().map(change).collect())
    }
}

impl From<ConfigError> for ConfigErrors {
    fn from(error: ConfigError) -> Self {
        Self(vec![error])
    }
}

impl IntoIterator for ConfigErrors {
    type Item = ConfigError;
    type IntoIter = std::vec::IntoIter<ConfigError>;
    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

/// Writes one error per line.
impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, error) in self.0.iter().enumerate() {
            write!(f, "{}{error}", if number == 0 { "" } else { "\n" })?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigErrors {}

/// Collects errors, so that parsing continues after the first error and all errors are reported at the end:
///
/// ```
/// use aqm_net::{ConfigErrors, ErrorCollector, Quantity as _, Rate, Span};
/// fn link(rate: &str, delay: &str) -> Result<(Rate, Span), ConfigErrors> {
///     let mut errors = ErrorCollector::default();
///     let rate = Rate::parse(rate).map_err(|problem| aqm_net::ConfigError::at("rate", problem));
///     let rate = errors.take(rate).unwrap_or_default();
///     let delay = Span::parse(delay).map_err(|problem| aqm_net::ConfigError::at("delay", problem));
///     let delay = errors.take(delay).unwrap_or_default();
///     errors.check(delay.seconds() < 10.0, "delay", format_args!("must be less than 10s (got {delay})"));
///     errors.finish((rate, delay))
/// }
/// assert_eq!(link("1Mb", "5").unwrap_err().iter().count(), 2);
/// ```
#[derive(Debug, Default)]
#[must_use = "`finish` returns the collected errors"]
pub struct ErrorCollector(Vec<ConfigError>);

impl ErrorCollector {
    /// Adds the given errors, except for errors that have already been added.
    pub fn add(&mut self, errors: impl Into<ConfigErrors>) {
        for error in errors.into() {
            if !self.0.contains(&error) {
                self.0.push(error);
            }
        }
    }

    /// Returns the value of a successful result; otherwise, adds the result's errors and returns `None`.
    pub fn take<T, E: Into<ConfigErrors>>(&mut self, result: Result<T, E>) -> Option<T> {
        result.map_err(|errors| self.add(errors)).ok()
    }

    /// Adds the error `problem` at `path` unless the condition is true.
    pub fn check(&mut self, condition: bool, path: impl Into<String>, problem: impl fmt::Display) {
        self.take(ConfigError::unless(condition, path, problem));
    }

    /// Does nothing if `has_effect` is true. Otherwise, adds an error for each parameter in `names` whose value in
    /// `table` differs from its default, because the parameter has no effect under `condition`. Default values are
    /// accepted, because a complete scenario lists every parameter. Parameters that already have an error are skipped.
    pub fn check_effect<T: Parameters + Serialize>(
        &mut self,
        has_effect: bool,
        table: &T,
        names: &[&str],
        condition: impl fmt::Display,
    ) {
        if has_effect {
            return;
        }
        let values = serde_json::to_value(table).expect("parameters can be serialised");
        for Field { name, default, .. } in T::parameters().iter().filter(|field| names.contains(&field.name))
        {
            let is_noted = self.0.iter().any(|error| error.path == *name);
            if !is_noted && values.get(name).is_some_and(|value| value != default) {
                self.add(ConfigError::without_effect(*name, &condition));
            }
        }
    }

    /// Returns whether no error has been added.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the value if no error has been added.
    ///
    /// # Errors
    /// Returns all added errors, with errors about unknown keys first.
    pub fn finish<T>(mut self, value: T) -> Result<T, ConfigErrors> {
        if self.0.is_empty() {
            return Ok(value);
        }
        self.0.sort_by_key(|error| error.kind != Kind::UnknownKey);
        Err(ConfigErrors(self.0))
    }

    /// Returns the value of `Some` if no error has been added.
    ///
    /// # Errors
    /// Returns all added errors, with errors about unknown keys first.
    ///
    /// # Panics
    /// Panics if the option is `None` although no error has been added.
    pub fn finish_some<T>(self, value: Option<T>) -> Result<T, ConfigErrors> {
        self.finish(()).map(|()| value.expect("without errors, the value exists"))
    }
}

/// Formats the error message for a word `given` that is not in `allowed`, and suggests the nearest allowed word. `what`
/// is the category of the word, for example `kind`.
pub fn unknown(what: &str, given: &str, allowed: &[&str]) -> String {
    refusal(what, given, nearest(given, allowed).map(quoted), allowed)
}

/// Formats the error message for a word `given` that is not in `allowed`, and suggests the words in `meant`, which the
/// user may have meant.
fn refusal(what: &str, given: &str, meant: Option<String>, allowed: &[&str]) -> String {
    let meant = meant.map_or(String::new(), |meant| format!(" did you mean {meant}?"));
    let list = allowed.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(", ");
    format!("unknown {what} `{given}`;{meant} allowed: {list}")
}

fn quoted(word: &str) -> String {
    format!("`{word}`")
}

/// Returns the paths of the inner keys for which `is_like` is true; `None` if there are none. `is_like` is applied to
/// the key alone, to the key prefixed with its table's name, and to the key followed by its table's name.
fn named_like(given: &str, inner: &[[&str; 2]], is_like: impl Fn(&str, &str) -> bool) -> Option<String> {
    let like = |[table, key]: &&[&str; 2]| {
        [(*key).to_owned(), format!("{table}_{key}"), format!("{key}_{table}")]
            .iter()
            .any(|name| is_like(given, name))
    };
    let names: Vec<String> = inner.iter().filter(like).map(|path| quoted(&path.join("."))).collect();
    (!names.is_empty()).then(|| names.join(" or "))
}

/// Returns the nearest allowed word, if at most a third of the letters differ.
fn nearest<'a>(given: &str, allowed: &[&'a str]) -> Option<&'a str> {
    let distances = allowed.iter().map(|word| (distance(given, word), *word));
    let near = distances.filter(|(distance, word)| *distance <= word.chars().count().div_ceil(3));
    near.min_by_key(|(distance, _)| *distance).map(|(_, word)| word)
}

/// Returns the number of insertions, deletions, replacements and transpositions of adjacent letters that convert one
/// word into the other (the restricted Damerau-Levenshtein distance).
fn distance(one: &str, other: &str) -> usize {
    let (one, other): (Vec<char>, Vec<char>) = (one.chars().collect(), other.chars().collect());
    let mut rows = [vec![0; other.len() + 1], vec![0; other.len() + 1], (0..=other.len()).collect()];
    for i in 1..=one.len() {
        rows.rotate_left(1);
        let [before, above, row] = &mut rows;
        row[0] = i;
        for j in 1..=other.len() {
            let replaced = above[j - 1] + usize::from(one[i - 1] != other[j - 1]);
            row[j] = replaced.min(above[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && one[i - 1] == other[j - 2] && one[i - 2] == other[j - 1] {
                row[j] = row[j].min(before[j - 2] + 1);
            }
        }
    }
    rows[2][other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_word_is_reported_with_the_nearest_and_all_allowed_words() {
        let words = ["delay", "rate", "queue"];
        assert_eq!(
            unknown("key", "dely", &words),
            "unknown key `dely`; did you mean `delay`? allowed: `delay`, `rate`, `queue`"
        );
        assert_eq!(unknown("key", "xyzzy", &words), "unknown key `xyzzy`; allowed: `delay`, `rate`, `queue`");
        assert_eq!(nearest("qeuue", &words), Some("queue"));
        assert_eq!(nearest("", &words), None);
    }

    #[test]
    fn an_unknown_key_of_an_inner_table_is_reported_with_its_path() {
        let inner = [["rto", "min"], ["rto", "initial"], ["cwnd", "initial"], ["sack", "at_timeout"]];
        let meant = |key| {
            let problem = ConfigError::unknown_key(key, &["rto", "cwnd", "sack"], &inner).problem;
            let (_, meant) = problem.split_once("did you mean ").unwrap_or_default();
            meant.split('?').next().unwrap_or_default().to_owned()
        };
        assert_eq!(meant("min"), "`rto.min`");
        assert_eq!(meant("initial"), "`rto.initial` or `cwnd.initial`");
        assert_eq!(meant("min_rto"), "`rto.min`");
        assert_eq!(meant("rto_min"), "`rto.min`");
        assert_eq!(meant("rtto"), "`rto`", "the table's own keys take precedence");
        assert_eq!(meant("sacks_at_timeout"), "`sack.at_timeout`");
        assert_eq!(meant("xyzzy"), "");
    }

    #[test]
    fn transposed_letters_count_once() {
        for (one, other, expected) in [
            ("", "", 0),
            ("red", "red", 0),
            ("", "red", 3),
            ("rde", "red", 1),
            ("max_ht", "max_th", 1),
            ("kitten", "sitting", 3),
        ] {
            assert_eq!(distance(one, other), expected, "{one} {other}");
            assert_eq!(distance(other, one), expected, "{other} {one}");
        }
    }

    #[test]
    fn a_repeated_error_is_reported_once() {
        let mut errors = ErrorCollector::default();
        for class in ["long", "short"] {
            errors.check(false, "limit", "must be at least 1p");
            errors.check(false, class, "must be positive");
        }
        let errors = errors.finish_some(Some(1)).unwrap_err();
        let paths: Vec<&str> = errors.iter().map(|error| error.path.as_str()).collect();
        assert_eq!(paths, ["limit", "long", "short"]);
        assert_eq!(ErrorCollector::default().finish_some(Some(1)), Ok(1));
    }

    #[test]
    fn unknown_keys_are_reported_first_with_their_paths() {
        let mut inner = ErrorCollector::default();
        inner.check(false, "load", "must be positive");
        inner.add(ConfigError::unknown_key("lod", &["load"], &[]));
        let mut outer = ErrorCollector::default();
        outer.check(true, "seed", "is fine");
        outer.check(false, "duration", format_args!("must be more than {}", 0));
        outer.take(inner.finish(()).map_err(|errors| errors.within("traffic.web")));
        assert_eq!(
            outer.finish(()).unwrap_err().to_string(),
            "traffic.web.lod: unknown key `lod`; did you mean `load`? allowed: `load`\n\
             duration: must be more than 0\n\
             traffic.web.load: must be positive"
        );
    }
}
