//! Minimal JSON writer for reports.

use std::fmt::Write as _;

/// A JSON value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Json {
    Null,
    Bool(bool),
    Number(f64),
    Text(String),
    List(Vec<Self>),
    Object(Vec<(&'static str, Self)>),
}

impl Json {
    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    /// A number, or null without one.
    pub(crate) fn number(value: Option<f64>) -> Self {
        value.filter(|value| value.is_finite()).map_or(Self::Null, Self::Number)
    }

    /// Writes the value, indented by two blanks per level; lists of numbers stay on one line.
    pub(crate) fn write(&self, out: &mut String, level: usize) {
        let indent = |out: &mut String, level: usize| {
            out.push('\n');
            out.push_str(&"  ".repeat(level));
        };
        match self {
            Self::Null => out.push_str("null"),
            Self::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
            // JSON cannot represent infinity or NaN.
            Self::Number(value) if !value.is_finite() => out.push_str("null"),
            Self::Number(value) => {
                let _ = write!(out, "{value}");
            }
            Self::Text(text) => quote(out, text),
            Self::List(values) => {
                let flat = values.iter().all(|value| matches!(value, Self::Number(_) | Self::Null));
                out.push('[');
                for (index, value) in values.iter().enumerate() {
                    out.push_str(if index == 0 {
                        ""
                    } else if flat {
                        ", "
                    } else {
                        ","
                    });
                    if !flat {
                        indent(out, level + 1);
                    }
                    value.write(out, level + 1);
                }
                if !flat {
                    indent(out, level);
                }
                out.push(']');
            }
            Self::Object(fields) => {
                out.push('{');
                for (index, (name, value)) in fields.iter().enumerate() {
                    out.push_str(if index == 0 { "" } else { "," });
                    indent(out, level + 1);
                    quote(out, name);
                    out.push_str(": ");
                    value.write(out, level + 1);
                }
                indent(out, level);
                out.push('}');
            }
        }
    }
}

fn quote(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            c if c.is_control() => {
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_written_and_texts_escaped() {
        let value = Json::Object(vec![
            ("a", Json::List(vec![Json::Number(1.5), Json::number(Some(f64::NAN))])),
            ("b", Json::text("x\"\\\n")),
            ("c", Json::List(vec![Json::text("y")])),
        ]);
        let mut out = String::new();
        value.write(&mut out, 0);
        assert_eq!(
            out,
            "{\n  \"a\": [1.5, null],\n  \"b\": \"x\\\"\\\\\\u000a\",\n  \"c\": [\n    \"y\"\n  ]\n}"
        );
    }
}
