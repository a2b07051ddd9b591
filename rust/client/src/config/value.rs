//! Option values as passed by the user, and their conversion to the type of the option.

use super::table::Kind;

/// An option value as passed by the user.
#[derive(Debug, Clone, PartialEq)]
pub enum OptionValue {
    /// Text.
    Str(String),
    /// An integer.
    Int(i64),
    /// A floating-point number.
    Float(f64),
    /// A boolean.
    Bool(bool),
    /// A duration in microseconds.
    Micros(i64),
    /// The default of the option, as if the user had not set it.
    Default,
}

impl std::fmt::Display for OptionValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Str(text) => write!(f, "{text:?}"),
            Self::Int(number) => write!(f, "{number}"),
            Self::Float(number) => write!(f, "{number}"),
            Self::Bool(flag) => write!(f, "{flag}"),
            Self::Micros(length) => write!(f, "{} s", *length as f64 / 1e6),
            Self::Default => write!(f, "the default"),
        }
    }
}

impl Kind {
    /// Describes the accepted values, for the documentation.
    pub(super) fn describe(self) -> String {
        self.describe_up_to(i64::from(i32::MAX) - 1)
    }

    /// Describes the accepted values, with the maximum of a number only if it is at most `limit`.
    fn describe_up_to(self, limit: i64) -> String {
        let bounds = |min, max| if max > limit { format!("at least {min}") } else { format!("from {min} to {max}") };
        match self {
            Kind::Text | Kind::Secret => "text".into(),
            Kind::Path => "path".into(),
            Kind::List => "text, separated by commas".into(),
            Kind::Bool => "true or false".into(),
            Kind::Int(min, max) => format!("whole number, {}", bounds(min, max)),
            Kind::Millis(min, max) => format!("milliseconds, {}", bounds(min, max)),
            Kind::Seconds(min, max) => format!("seconds, {}", bounds(min, max)),
            Kind::Float(min, max) => format!("number, from {min} to {max}"),
            Kind::Choice(words) => words.join(", "),
        }
    }

    /// Describes the accepted values in an error about `value`, with the maximum of a number if `value` exceeds it.
    pub(super) fn expected(self, value: &OptionValue) -> String {
        let number = match value {
            OptionValue::Int(number) => *number,
            OptionValue::Micros(length) => length / if matches!(self, Kind::Seconds(..)) { 1_000_000 } else { 1_000 },
            OptionValue::Float(number) => *number as i64,
            OptionValue::Str(text) => text.trim().parse().unwrap_or_default(),
            OptionValue::Bool(_) | OptionValue::Default => 0,
        };
        let text = match self {
            Kind::Int(_, max) | Kind::Millis(_, max) | Kind::Seconds(_, max) if number > max => {
                self.describe_up_to(i64::MAX)
            }
            _ => self.describe(),
        };
        match self {
            Kind::Int(..) | Kind::Float(..) | Kind::Path => format!("a {text}"),
            Kind::Choice(_) => format!("one of {text}"),
            _ => text,
        }
    }

    /// Returns the value in its canonical text form, or `None` if it does not have this type.
    pub(super) fn accept(self, value: &OptionValue) -> Option<String> {
        match (self, value) {
            (Kind::Text | Kind::List | Kind::Path | Kind::Secret, OptionValue::Str(text)) => Some(text.clone()),
            (Kind::Bool, OptionValue::Bool(flag)) => Some(flag.to_string()),
            (Kind::Bool, OptionValue::Str(text)) => {
                let text = text.trim().to_ascii_lowercase();
                matches!(text.as_str(), "true" | "false").then_some(text)
            }
            (Kind::Int(min, max) | Kind::Millis(min, max) | Kind::Seconds(min, max), value) => {
                let number = match value {
                    OptionValue::Micros(length) => match self {
                        Kind::Millis(..) => whole(*length, 1_000)?,
                        Kind::Seconds(..) => whole(*length, 1_000_000)?,
                        _ => return None,
                    },
                    OptionValue::Int(number) => *number,
                    OptionValue::Str(text) => text.trim().parse().ok()?,
                    OptionValue::Float(number) if number.fract() == 0.0 && number.abs() < 9e15 => *number as i64,
                    _ => return None,
                };
                (min..=max).contains(&number).then(|| number.to_string())
            }
            (Kind::Float(min, max), value) => {
                let number = match value {
                    OptionValue::Int(number) => *number as f64,
                    OptionValue::Float(number) => *number,
                    OptionValue::Str(text) => text.trim().parse().ok()?,
                    OptionValue::Bool(_) | OptionValue::Micros(_) | OptionValue::Default => return None,
                };
                (min..=max).contains(&number).then(|| number.to_string())
            }
            (Kind::Choice(words), value) => {
                let text = match value {
                    OptionValue::Str(text) => text.trim().to_owned(),
                    OptionValue::Int(number) => number.to_string(),
                    _ => return None,
                };
                words.iter().find(|word| word.eq_ignore_ascii_case(&text)).map(|word| (*word).to_owned())
            }
            _ => None,
        }
    }
}

/// Converts a duration to whole units; `None` if it is not a multiple of the unit.
fn whole(length: i64, unit: i64) -> Option<i64> {
    (length % unit == 0).then_some(length / unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expected_values_include_an_exceeded_maximum() {
        let cases = [
            (Kind::Int(1, i64::from(i32::MAX)), OptionValue::Int(1 << 40), "a whole number, from 1 to 2147483647"),
            (Kind::Int(1, i64::from(i32::MAX)), OptionValue::Str("x".into()), "a whole number, at least 1"),
            (Kind::Millis(0, i64::from(i32::MAX)), OptionValue::Int(-1), "milliseconds, at least 0"),
            (Kind::Millis(0, i64::from(i32::MAX)), OptionValue::Micros(1 << 50), "milliseconds, from 0 to 2147483647"),
            (Kind::Seconds(0, 900), OptionValue::Micros(901_000_000), "seconds, from 0 to 900"),
            (Kind::Int(1, i64::MAX), OptionValue::Int(0), "a whole number, at least 1"),
            (Kind::Choice(&["a", "b"]), OptionValue::Int(0), "one of a, b"),
            (Kind::Path, OptionValue::Int(0), "a path"),
        ];
        for (kind, value, expected) in cases {
            assert_eq!(kind.expected(&value), expected);
        }
    }

    #[test]
    fn lengths_of_time_are_of_options_with_a_unit() {
        let accept = |kind: Kind, micros| kind.accept(&OptionValue::Micros(micros));
        assert_eq!(accept(Kind::Millis(0, 9000), 1_500_000).as_deref(), Some("1500"));
        assert_eq!(accept(Kind::Seconds(0, 900), 60_000_000).as_deref(), Some("60"));
        assert_eq!(accept(Kind::Seconds(0, 900), 60_500_000), None);
        assert_eq!(accept(Kind::Millis(0, 9000), 500), None);
        assert_eq!(accept(Kind::Millis(0, 9000), -1_000), None);
        assert_eq!(accept(Kind::Millis(0, 1000), 2_000_000), None);
        for kind in [Kind::Int(0, 9), Kind::Float(0.0, 9.0), Kind::Text, Kind::Bool, Kind::Choice(&["1"])] {
            assert_eq!(accept(kind, 1_000_000), None);
        }
        assert_eq!(OptionValue::Micros(1_500_000).to_string(), "1.5 s");
    }
}
