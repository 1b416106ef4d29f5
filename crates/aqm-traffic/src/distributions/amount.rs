//! The parameters of distributions (sizes, times or numbers), and the unit into which these parameters are converted.

use std::fmt;

use aqm_net::{ConfigError, ConfigErrors, Length, Parameter, Quantity as _, Schema, Size, Span};
use serde::{Serialize, Serializer};
use serde_json::Value;

/// A size, a time or a number that is a parameter of a distribution.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Amount {
    /// A size in bytes, for example `10kB`.
    Size(Size),
    /// A size in full-sized packets, for example `4p`.
    Packets(u64),
    /// A time, for example `50ms`.
    Time(Span),
    /// A plain number, for example `7`.
    Number(f64),
}

impl Amount {
    /// Returns a size of `bytes` bytes.
    pub const fn bytes(bytes: u64) -> Self {
        Self::Size(Size::from_bytes(bytes))
    }

    /// Returns a time of `millis` milliseconds.
    pub const fn millis(millis: u64) -> Self {
        Self::Time(Span::from_millis(millis))
    }

    fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let unit = text.trim_start_matches(|c: char| !c.is_alphabetic() || matches!(c, 'e' | 'E'));
        match unit {
            "p" => Length::parse(text).map(|length| Self::Packets(length.count())),
            "ns" | "us" | "ms" | "s" | "min" => Span::parse(text).map(Self::Time),
            "B" | "kB" | "MB" | "GB" => Size::parse(text).map(Self::Size),
            _ => Err(format!(
                "`{text}` is not a size (B, kB, MB, GB or p), a time (ns, us, ms, s or min), or a number without \
                 quotes"
            )),
        }
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Size(size) => size.fmt(f),
            Self::Packets(packets) => write!(f, "{packets}p"),
            Self::Time(span) => span.fmt(f),
            Self::Number(number) => number.fmt(f),
        }
    }
}

impl Serialize for Amount {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        match *self {
            Self::Number(number) if (0.0..=1e15).contains(&number) && number == libm::trunc(number) => {
                out.serialize_u64(number as u64)
            }
            Self::Number(number) => out.serialize_f64(number),
            _ => out.collect_str(self),
        }
    }
}

impl Parameter for Amount {
    fn schema() -> Schema {
        let units = [Size::SCALE, &[("p", 1.0)], Span::SCALE].concat();
        Schema { units: units.iter().map(|(unit, _)| *unit).collect(), ..Schema::of("size, time or number") }
    }

    fn read(value: Value) -> Result<Self, ConfigErrors> {
        let amount = match &value {
            Value::String(text) => Self::parse(text),
            Value::Number(number) => {
                number.as_f64().map(Self::Number).ok_or_else(|| format!("{number} is too large"))
            }
            _ => Err("must be a number, or a string that contains a size or a time with its unit".to_owned()),
        };
        Ok(amount.map_err(|problem| ConfigError::at("", problem))?)
    }
}

/// The unit of a distribution's values and parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Bytes or full-sized packets. The unit of the first parameter determines the unit; all other parameters must have
    /// the same unit.
    BytesOrPackets,
    /// Bytes.
    Bytes,
    /// Full-sized packets.
    Packets,
    /// Nanoseconds.
    Nanoseconds,
    /// Seconds.
    Seconds,
    /// Counts, for example the number of objects per page.
    Count,
    /// Relative values, of which only the shape of the distribution is used. The default mean is 1.
    Form,
}

/// Maximum mean size in bytes. A larger value is assumed to be a typing error.
const MAX_MEAN: f64 = 1e12;

impl Unit {
    /// Converts the parameter `path` into this unit.
    ///
    /// # Errors
    /// Returns an error if the parameter has a different unit or is out of range.
    pub fn read(&mut self, path: &'static str, amount: Amount) -> Result<f64, ConfigError> {
        let value = match (*self, amount) {
            (Self::BytesOrPackets | Self::Bytes, Amount::Size(size)) => {
                *self = Self::Bytes;
                size.bytes() as f64
            }
            (Self::BytesOrPackets | Self::Packets, Amount::Packets(packets)) => {
                *self = Self::Packets;
                packets as f64
            }
            (Self::Nanoseconds, Amount::Time(span)) => return Ok(span.nanos() as f64),
            (Self::Seconds, Amount::Time(span)) => return Ok(span.seconds()),
            (Self::Count | Self::Form, Amount::Number(number)) if number.is_finite() && number >= 0.0 => {
                return Ok(number);
            }
            _ => return Err(ConfigError::at(path, format!("must be {} (got {amount})", self.expected()))),
        };
        let unit = if *self == Self::Packets { "p" } else { "B" };
        ConfigError::unless(value >= 1.0, path, format_args!("must be at least 1{unit} (got {amount})"))?;
        Ok(value)
    }

    /// Converts the parameter `path`, which has no default, into this unit.
    ///
    /// # Errors
    /// Returns an error if the parameter is missing or invalid.
    pub fn read_given(&mut self, path: &'static str, amount: Option<Amount>) -> Result<f64, ConfigError> {
        let Some(amount) = amount else {
            return Err(ConfigError::at(path, format!("is missing: must be {}", self.expected())));
        };
        self.read(path, amount)
    }

    /// Converts the parameter `path` into this unit. The parameter is the distribution's mean or its only value.
    ///
    /// # Errors
    /// Returns an error if the parameter is missing and the unit has no default mean, or if the parameter is invalid.
    pub fn read_mean(&mut self, path: &'static str, amount: Option<Amount>) -> Result<f64, ConfigError> {
        if *self == Self::Form && amount.is_none() {
            return Ok(1.0);
        }
        let mean = self.read_given(path, amount)?;
        if *self == Self::Bytes && mean > MAX_MEAN {
            let is = amount.map_or_else(String::new, |amount| amount.to_string());
            return Err(ConfigError::at(path, format!("must be between 1B and 1000GB (got {is})")));
        }
        Ok(mean)
    }

    /// Formats a value in this unit in the notation that scenarios use. If the unit requires integers, `round` converts
    /// the value to an integer.
    pub(super) fn show(self, value: f64, round: fn(f64) -> f64) -> String {
        match self {
            Self::BytesOrPackets | Self::Bytes => format!("{}B", round(value)),
            Self::Packets => format!("{}p", round(value)),
            Self::Nanoseconds => Span::from_nanos(round(value) as u64).to_string(),
            Self::Seconds => Span::from_nanos(round(value * 1e9) as u64).to_string(),
            Self::Count | Self::Form => value.to_string(),
        }
    }

    fn expected(self) -> &'static str {
        match self {
            Self::BytesOrPackets => "a size, such as \"10kB\" or \"4p\"",
            Self::Bytes => "a size in bytes, such as \"10kB\"",
            Self::Packets => "a size in packets, such as \"4p\", like the previous parameters",
            Self::Nanoseconds | Self::Seconds => "a time, such as \"50ms\"",
            Self::Count | Self::Form => "a number of zero or more",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn amount(value: Value) -> Result<Amount, String> {
        Amount::read(value).map_err(|errors| errors.to_string())
    }

    #[test]
    fn the_unit_of_an_amount_determines_its_type() {
        assert_eq!(amount(json!("10kB")), Ok(Amount::bytes(10_000)));
        assert_eq!(amount(json!("4p")), Ok(Amount::Packets(4)));
        assert_eq!(amount(json!("1e3ms")), Ok(Amount::millis(1000)));
        assert_eq!(amount(json!(7)), Ok(Amount::Number(7.0)));
        assert_eq!(amount(json!(0.5)), Ok(Amount::Number(0.5)));
        for text in ["10kB", "4p", "1500ms", "2GB"] {
            assert_eq!(json!(amount(json!(text)).unwrap()), json!(text));
        }
        assert_eq!(json!([Amount::Number(7.0), Amount::Number(0.5)]), json!([7, 0.5]));
        for text in ["10", "4q", "s", "-1kB", ""] {
            assert!(amount(json!(text)).is_err(), "{text}");
        }
    }

    #[test]
    fn a_parameter_in_another_unit_is_rejected_with_its_path() {
        let problem = |mut unit: Unit, amount| unit.read("mean", amount).unwrap_err().to_string();
        assert_eq!(
            problem(Unit::Nanoseconds, Amount::bytes(10_000)),
            "mean: must be a time, such as \"50ms\" (got 10kB)"
        );
        assert_eq!(
            problem(Unit::Bytes, Amount::Packets(4)),
            "mean: must be a size in bytes, such as \"10kB\" (got 4p)"
        );
        assert_eq!(problem(Unit::Bytes, Amount::bytes(0)), "mean: must be at least 1B (got 0B)");
        assert_eq!(
            problem(Unit::Count, Amount::Number(-1.0)),
            "mean: must be a number of zero or more (got -1)"
        );
        let mut unit = Unit::BytesOrPackets;
        assert_eq!(unit.read("minimum", Amount::Packets(4)), Ok(4.0));
        assert!(
            unit.read("maximum", Amount::bytes(5)).is_err(),
            "the first parameter has set the unit to packets"
        );
    }
}
