//! Numbers with units in their text form.

use crate::Quantity;

/// Reads `text` as a number and one of the units of a quantity; `example` is shown when the unit is missing. The value
/// is returned in the base unit.
pub(crate) fn parse<T: Quantity>(text: &str, example: &str) -> Result<f64, String> {
    let text = text.trim();
    let split = text
        .find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '-' | '+' | '_')))
        .unwrap_or(text.len());
    // An exponent belongs to the number: `1e6p`, but the `E` of no unit we have.
    let split = match text.as_bytes().get(split..split + 2) {
        Some([b'e' | b'E', next]) if next.is_ascii_digit() || matches!(next, b'-' | b'+') => {
            let rest = &text[split + 2..];
            split + 2 + rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len())
        }
        _ => split,
    };
    let (number, unit) = (text[..split].replace('_', ""), text[split..].trim());
    let names: Vec<&str> = T::SCALE.iter().map(|(name, _)| *name).collect();
    let value: f64 =
        number.parse().map_err(|_| format!("`{text}` is not a number with a unit, such as `{example}`"))?;
    if unit.is_empty() {
        return Err(format!("`{text}` has no unit: write for example `{example}`"));
    }
    let Some((_, factor)) = T::SCALE.iter().find(|(name, _)| *name == unit) else {
        return Err(format!("`{text}`: unknown unit `{unit}`, expected {}", names.join(", ")));
    };
    if !value.is_finite() || value < 0.0 {
        return Err(format!("`{text}` must be a finite number, zero or more"));
    }
    Ok(value * factor)
}

/// Writes `value` in the largest unit that leaves it whole, and zero in the unit `base`.
pub(crate) fn show(value: u64, base: &str, scale: &[(&str, u64)]) -> String {
    if value == 0 {
        return format!("0{base}");
    }
    let (unit, factor) = scale
        .iter()
        .find(|(_, factor)| value.is_multiple_of(*factor))
        .expect("every scale ends in a factor of one");
    format!("{}{unit}", value / factor)
}

/// Text form in and out of scenario files for a [`Quantity`].
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
                $crate::parameters::read_quantity(&value)
            }
        }
    };
}
pub(crate) use quantity_parameter;
