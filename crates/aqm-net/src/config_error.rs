//! What is wrong in a configuration: [`ConfigError`], one mistake at its place, and [`ConfigErrors`], all mistakes of
//! a table.

use std::fmt;

use serde::Serialize;

use crate::{Field, Parameters};

/// What is wrong in a configuration, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// The path of the offending field, such as `bottleneck.queue.max_th`; may be empty.
    pub place: String,
    /// What is wrong, and what is allowed.
    pub problem: String,
    kind: Kind,
}

/// Mistakes that need more than to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// The place is a key that nobody knows: told before all else, since what it was meant for is missing.
    UnknownKey,
    /// The parameter has no effect in this setting: a sweep leaves it out where it has none.
    WithoutEffect,
    Other,
}

impl ConfigError {
    /// The `problem` at `place`.
    pub fn at(place: impl Into<String>, problem: impl Into<String>) -> Self {
        Self { place: place.into(), problem: problem.into(), kind: Kind::Other }
    }

    /// The parameter at `place` has no effect, for the reason that `condition` says: `without ecn`.
    pub fn without_effect(place: impl Into<String>, condition: impl fmt::Display) -> Self {
        let problem = format!("has no effect {condition}: leave it out");
        Self { place: place.into(), problem, kind: Kind::WithoutEffect }
    }

    /// Whether the mistake is a parameter that has no effect in this setting.
    pub fn is_without_effect(&self) -> bool {
        self.kind == Kind::WithoutEffect
    }

    /// Refuses what does not meet a condition: `ConfigError::unless(gain <= 1.0, "gain", format_args!("must be at
    /// most 1, not {gain}"))?`.
    ///
    /// # Errors
    /// The `problem` at `place`, unless the condition holds.
    pub fn unless(condition: bool, place: impl Into<String>, problem: impl fmt::Display) -> Result<(), Self> {
        if condition { Ok(()) } else { Err(Self::at(place, problem.to_string())) }
    }

    /// A key of a table that has only those `allowed`; `inner` are the keys that the tables in it have, each after the
    /// key of its table.
    pub(crate) fn unknown_key(key: &str, allowed: &[&str], inner: &[[&str; 2]]) -> Self {
        let same = || named_like(key, inner, |given, name| given == name);
        let near = || named_like(key, inner, |given, name| nearest(given, &[name]).is_some());
        let meant = same().or_else(|| nearest(key, allowed).map(quoted)).or_else(near);
        Self { place: key.to_owned(), problem: refusal("key", key, meant, allowed), kind: Kind::UnknownKey }
    }

    /// The same error seen from outside: its place is inside `outer`.
    #[must_use]
    pub fn within(mut self, outer: &str) -> Self {
        self.place = match (outer, self.place.as_str()) {
            ("", path) | (path, "") => path.to_owned(),
            (outer, inner) => format!("{outer}.{inner}"),
        };
        self
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.place.is_empty() {
            f.write_str(&self.problem)
        } else {
            write!(f, "{}: {}", self.place, self.problem)
        }
    }
}

impl std::error::Error for ConfigError {}

/// Everything that is wrong in a table, at least one mistake: unknown keys first, then the rest in the order in which
/// it was found. It is made of a [`ConfigError`], or by an [`ErrorCollector`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigErrors(Vec<ConfigError>);

impl ConfigErrors {
    /// The first mistake.
    pub fn first(&self) -> &ConfigError {
        &self.0[0]
    }

    /// Every mistake.
    pub fn iter(&self) -> std::slice::Iter<'_, ConfigError> {
        self.0.iter()
    }

    /// The same errors seen from outside: their places are inside `outer`.
    #[must_use]
    pub fn within(self, outer: &str) -> Self {
        self.map(|error| error.within(outer))
    }

    /// The same errors, each changed.
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

/// A mistake a line.
impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, error) in self.0.iter().enumerate() {
            write!(f, "{}{error}", if number == 0 { "" } else { "\n" })?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigErrors {}

/// Collects mistakes, so that reading goes on after the first one and all are told at the end:
///
/// ```
/// use aqm_net::{ConfigErrors, ErrorCollector, Quantity as _, Rate, Span};
/// fn line(rate: &str, delay: &str) -> Result<(Rate, Span), ConfigErrors> {
///     let mut errors = ErrorCollector::default();
///     let rate = Rate::parse(rate).map_err(|problem| aqm_net::ConfigError::at("rate", problem));
///     let rate = errors.take(rate).unwrap_or_default();
///     let delay = Span::parse(delay).map_err(|problem| aqm_net::ConfigError::at("delay", problem));
///     let delay = errors.take(delay).unwrap_or_default();
///     errors.check(delay.seconds() < 10.0, "delay", format_args!("must be less than 10s, is {delay}"));
///     errors.finish((rate, delay))
/// }
/// assert_eq!(line("1Mb", "5").unwrap_err().iter().count(), 2);
/// ```
#[derive(Debug, Default)]
#[must_use = "the mistakes are told by `finish`"]
pub struct ErrorCollector(Vec<ConfigError>);

impl ErrorCollector {
    /// Takes note of mistakes, of each once.
    pub fn add(&mut self, errors: impl Into<ConfigErrors>) {
        for error in errors.into() {
            if !self.0.contains(&error) {
                self.0.push(error);
            }
        }
    }

    /// The value of a result, or nothing and its mistakes are noted.
    pub fn take<T, E: Into<ConfigErrors>>(&mut self, result: Result<T, E>) -> Option<T> {
        result.map_err(|errors| self.add(errors)).ok()
    }

    /// Notes the `problem` at `place` unless the condition holds.
    pub fn check(&mut self, condition: bool, place: impl Into<String>, problem: impl fmt::Display) {
        self.take(ConfigError::unless(condition, place, problem));
    }

    /// Notes those of the parameters `names` of `table` that have another value than their default although they have
    /// no effect, for the reason that `condition` says, unless `has_effect`. The default is let pass, because a scenario
    /// in full names every parameter; so is a parameter of which another mistake is noted.
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
        let values = serde_json::to_value(table).expect("parameters can be written");
        for Field { name, default, .. } in T::parameters().iter().filter(|field| names.contains(&field.name))
        {
            let is_noted = self.0.iter().any(|error| error.place == *name);
            if !is_noted && values.get(name).is_some_and(|value| value != default) {
                self.add(ConfigError::without_effect(*name, &condition));
            }
        }
    }

    /// Whether nothing is wrong so far.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The value, if nothing is wrong.
    ///
    /// # Errors
    /// Every mistake that was noted, unknown keys first.
    pub fn finish<T>(mut self, value: T) -> Result<T, ConfigErrors> {
        if self.0.is_empty() {
            return Ok(value);
        }
        self.0.sort_by_key(|error| error.kind != Kind::UnknownKey);
        Err(ConfigErrors(self.0))
    }

    /// What was found or made, if nothing is wrong.
    ///
    /// # Errors
    /// Every mistake that was noted, unknown keys first.
    ///
    /// # Panics
    /// If there is nothing although nothing is wrong.
    pub fn finish_some<T>(self, found: Option<T>) -> Result<T, ConfigErrors> {
        self.finish(()).map(|()| found.expect("without a mistake everything was found"))
    }
}

/// Says that the word `given` is none of those `allowed`, and which of them it is nearest to; `what` is what it was
/// taken for, such as `kind`.
pub fn unknown(what: &str, given: &str, allowed: &[&str]) -> String {
    refusal(what, given, nearest(given, allowed).map(quoted), allowed)
}

/// Says that the word `given` is none of those `allowed`, and what may have been meant.
fn refusal(what: &str, given: &str, meant: Option<String>, allowed: &[&str]) -> String {
    let meant = meant.map_or(String::new(), |meant| format!(" did you mean {meant}?"));
    let list = allowed.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(", ");
    format!("unknown {what} `{given}`;{meant} allowed: {list}")
}

fn quoted(word: &str) -> String {
    format!("`{word}`")
}

/// The keys of tables that `is_like` finds like `given`, which may also name the table, before the key or after it;
/// nothing if there are none.
fn named_like(given: &str, inner: &[[&str; 2]], is_like: impl Fn(&str, &str) -> bool) -> Option<String> {
    let like = |[table, key]: &&[&str; 2]| {
        [(*key).to_owned(), format!("{table}_{key}"), format!("{key}_{table}")]
            .iter()
            .any(|name| is_like(given, name))
    };
    let found: Vec<String> = inner.iter().filter(like).map(|path| quoted(&path.join("."))).collect();
    (!found.is_empty()).then(|| found.join(" or "))
}

/// The word that may have been meant: one that differs in at most a third of its letters.
fn nearest<'a>(given: &str, allowed: &[&'a str]) -> Option<&'a str> {
    let distances = allowed.iter().map(|word| (distance(given, word), *word));
    let near = distances.filter(|(distance, word)| *distance <= word.chars().count().div_ceil(3));
    near.min_by_key(|(distance, _)| *distance).map(|(_, word)| word)
}

/// How many letters must be put in, left out or replaced to turn one word into the other, two letters that changed
/// places counting as one (the restricted distance of Damerau and Levenshtein).
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
    fn an_unknown_word_is_told_the_nearest_one_and_all_that_are_allowed() {
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
    fn an_unknown_key_that_a_table_inside_has_is_told_where_it_stands() {
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
        assert_eq!(meant("rtto"), "`rto`", "what the table itself has is nearer");
        assert_eq!(meant("sacks_at_timeout"), "`sack.at_timeout`");
        assert_eq!(meant("xyzzy"), "");
    }

    #[test]
    fn letters_that_changed_places_count_once() {
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
    fn a_mistake_that_is_found_twice_is_told_once() {
        let mut errors = ErrorCollector::default();
        for class in ["long", "short"] {
            errors.check(false, "limit", "must be at least 1p");
            errors.check(false, class, "must be positive");
        }
        let errors = errors.finish_some(Some(1)).unwrap_err();
        let places: Vec<&str> = errors.iter().map(|error| error.place.as_str()).collect();
        assert_eq!(places, ["limit", "long", "short"]);
        assert_eq!(ErrorCollector::default().finish_some(Some(1)), Ok(1));
    }

    #[test]
    fn unknown_keys_are_told_before_the_rest_and_each_with_its_place() {
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
