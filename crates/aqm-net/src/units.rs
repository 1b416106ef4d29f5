//! Numbers with units in their text form.

/// Reads `text` as a number and one of the units in `scale`; `example` is shown when the unit is
/// missing. The value is returned in the base unit.
pub(crate) fn parse(text: &str, example: &str, scale: &[(&str, f64)]) -> Result<f64, String> {
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
    let names: Vec<&str> = scale.iter().map(|(name, _)| *name).collect();
    let value: f64 =
        number.parse().map_err(|_| format!("`{text}` is not a number with a unit, such as `{example}`"))?;
    if unit.is_empty() {
        return Err(format!("`{text}` has no unit: write for example `{example}`"));
    }
    let Some((_, factor)) = scale.iter().find(|(name, _)| *name == unit) else {
        return Err(format!("`{text}`: unknown unit `{unit}`, expected {}", names.join(", ")));
    };
    if !value.is_finite() || value < 0.0 {
        return Err(format!("`{text}` must be a finite number, zero or more"));
    }
    Ok(value * factor)
}

/// Writes `value` in the largest unit that leaves it whole.
pub(crate) fn show(value: u64, scale: &[(&str, u64)]) -> String {
    let (unit, factor) = scale
        .iter()
        .find(|(_, factor)| value.is_multiple_of(*factor))
        .expect("every scale ends in a factor of one");
    format!("{}{unit}", value / factor)
}

/// Text form in and out of scenario files for a [`crate::registry::Quantity`].
macro_rules! quantity_serde {
    ($type:ty) => {
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
                out.collect_str(self)
            }
        }
        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
                struct Text;
                impl serde::de::Visitor<'_> for Text {
                    type Value = $type;
                    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        write!(f, "text with a unit ({})", <$type as $crate::registry::Quantity>::UNIT)
                    }
                    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<$type, E> {
                        <$type as $crate::registry::Quantity>::parse(text).map_err(E::custom)
                    }
                }
                input.deserialize_str(Text)
            }
        }
    };
}
pub(crate) use quantity_serde;
