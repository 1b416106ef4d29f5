//! Parsing and formatting of numbers with units.

use crate::{Length, Quantity, Rate, Size, Span};

/// Parses a quantity of any kind and converts it to seconds, bits per second, packets or bytes. Also returns the unit:
/// `s`, `bps`, `p` or `B`.
///
/// # Errors
/// Returns a sentence that describes the error and the allowed values.
pub fn in_base_unit(text: &str) -> Result<(f64, &'static str), String> {
    if is_in::<Span>(text) {
        Ok((Span::parse(text)?.seconds(), "s"))
    } else if is_in::<Rate>(text) {
        Ok((Rate::parse(text)?.bps() as f64, "bps"))
    } else if is_in::<Size>(text) {
        Ok((Size::parse(text)?.bytes() as f64, "B"))
    } else if is_in::<Length>(text) {
        Ok((Length::parse(text)?.count() as f64, "p"))
    } else {
        let scales = [Span::SCALE, Rate::SCALE, Length::SCALE];
        Err(format!("`{text}` is not a number with one of the units {}", names(&scales.concat())))
    }
}

/// Returns whether the unit in `text` is a unit of this quantity.
pub(crate) fn is_in<T: Quantity>(text: &str) -> bool {
    let (_, unit) = split(text);
    T::SCALE.iter().any(|(name, _)| *name == unit)
}

fn names(scale: &[(&str, f64)]) -> String {
    scale.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
}

/// Splits a text into a number and a unit, without checking either of them.
fn split(text: &str) -> (&str, &str) {
    let text = text.trim();
    let split = text
        .find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '-' | '+' | '_')))
        .unwrap_or(text.len());
    // The exponent is a part of the number, as in `1e6p`. No unit begins with `E` followed by a digit.
    let split = match text.as_bytes().get(split..split + 2) {
        Some([b'e' | b'E', next]) if next.is_ascii_digit() || matches!(next, b'-' | b'+') => {
            let rest = &text[split + 2..];
            split + 2 + rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len())
        }
        _ => split,
    };
    (&text[..split], text[split..].trim())
}

/// Parses `text` as a number with a unit of the quantity, and returns the number in the base unit. The error message
/// contains `example` if the text does not begin with a number.
pub(crate) fn parse<T: Quantity>(text: &str, example: &str) -> Result<f64, String> {
    let text = text.trim();
    let (number, unit) = split(text);
    let value: f64 = number
        .replace('_', "")
        .parse()
        .map_err(|_| format!("`{text}` is not a number with a unit, such as `{example}`"))?;
    if unit.is_empty() {
        return Err(format!("`{text}` has no unit: add one of {}", names(T::SCALE)));
    }
    let Some((_, factor)) = T::SCALE.iter().find(|(name, _)| *name == unit) else {
        return Err(format!("`{text}`: unknown unit `{unit}`, expected {}", names(T::SCALE)));
    };
    if !value.is_finite() || value < 0.0 {
        return Err(format!("`{text}` must be a finite number, zero or more"));
    }
    Ok(value * factor)
}

/// Formats `value` in the largest unit in which the value is an integer. Zero is formatted in the unit `base`.
pub(crate) fn show(value: u64, base: &str, scale: &[(&str, u64)]) -> String {
    if value == 0 {
        return format!("0{base}");
    }
    let (unit, factor) = scale
        .iter()
        .find(|(_, factor)| value.is_multiple_of(*factor))
        .expect("every scale ends with a factor of one");
    format!("{}{unit}", value / factor)
}

/// Implements the text form of a [`Quantity`] in scenario files.
macro_rules! quantity_parameter {
    ($type:ty) => {
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
                out.collect_str(self)
            }
        }
        impl $crate::Parameter for $type {
            fn schema() -> $crate::Schema {
                let units = <$type as $crate::Quantity>::SCALE.iter().map(|(unit, _)| *unit).collect();
                $crate::Schema { units, ..$crate::Schema::of(<$type as $crate::Quantity>::NAME) }
            }
            fn read(value: serde_json::Value) -> Result<Self, $crate::ConfigErrors> {
                $crate::values::read_quantity(&value)
            }
        }
    };
}
pub(crate) use quantity_parameter;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_quantity_is_read_in_its_base_unit() {
        for (text, number, unit) in [
            ("160s", 160.0, "s"),
            (" 60 ms ", 0.06, "s"),
            ("2min", 120.0, "s"),
            ("2.5Gbps", 2.5e9, "bps"),
            ("1Tbps", 1e12, "bps"),
            ("30p", 30.0, "p"),
            ("1e3p", 1000.0, "p"),
            ("20kB", 20_000.0, "B"),
            ("2GB", 2e9, "B"),
        ] {
            assert_eq!(in_base_unit(text), Ok((number, unit)), "{text}");
        }
        for text in ["", "10", "s", "10 parsecs", "2h", "1 kilo bps", "-1s", "0bps", "1.5p"] {
            assert!(in_base_unit(text).is_err(), "{text}");
        }
        assert_eq!(
            in_base_unit("5q").unwrap_err(),
            "`5q` is not a number with one of the units ns, us, ms, s, min, bps, kbps, Mbps, Gbps, Tbps, p, B, kB, MB"
        );
    }

    #[test]
    fn zero_is_written_in_the_base_unit() {
        let zeros = [Span::ZERO.to_string(), Size::default().to_string(), Length::Bytes(0).to_string()];
        assert_eq!(zeros, ["0s", "0B", "0B"]);
        assert_eq!(Rate::default().to_string(), "0bps");
    }
}
