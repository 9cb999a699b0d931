//! Values of keywords about the authentication agent.

use crate::line::Arguments;
use crate::table::Value;
use crate::units::parse_time;
use crate::value_error::{Syntax, ValueError};

/// `AddKeysToAgent`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AddKeysToAgent {
    /// Whether keys are added.
    pub add: bool,
    /// The user is asked first (`ask`).
    pub ask: bool,
    /// The agent asks before each use (`confirm`).
    pub confirm: bool,
    /// Lifetime in the agent, seconds.
    pub lifetime: Option<u64>,
}

impl Value for AddKeysToAgent {
    const KIND: &'static str = "yes, no, ask, confirm, or a time";
    fn parse(args: &mut Arguments) -> Result<Self, ValueError> {
        let first = args.required()?;
        let second = args.next_word();
        let lower = first.to_ascii_lowercase();
        let mut out = Self { add: true, ..Self::default() };
        match (lower.as_str(), &second) {
            ("yes" | "true", None) => {}
            ("no" | "false", None) => out.add = false,
            ("ask", None) => out.ask = true,
            ("confirm", time) => {
                out.confirm = true;
                if let Some(time) = time {
                    out.lifetime = Some(parse_time(time).ok_or_else(|| args.malformed(Syntax::Time, time))?);
                }
            }
            (time, None) => {
                out.lifetime = Some(parse_time(time).ok_or_else(|| args.unknown_word(&first))?);
            }
            _ => return Err(args.unknown_word(&first)),
        }
        Ok(out)
    }
    fn dump(&self, name: &str, out: &mut Vec<String>) {
        let word = match (self.add, self.ask, self.confirm) {
            (false, ..) => "false".to_string(),
            (_, true, _) => "ask".to_string(),
            (_, _, true) => "confirm".to_string(),
            _ if self.lifetime.is_some_and(|seconds| seconds > 0) => String::new(),
            _ => "true".to_string(),
        };
        let time =
            self.lifetime.filter(|&seconds| seconds > 0).map_or(String::new(), |seconds| seconds.to_string());
        let gap = if word.is_empty() || time.is_empty() { "" } else { " " };
        out.push(format!("{name} {word}{gap}{time}"));
    }
}

/// `ForwardAgent`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ForwardAgent {
    /// The agent is not forwarded.
    #[default]
    No,
    /// The agent of `SSH_AUTH_SOCK` is forwarded.
    Yes,
    /// The agent at this path is forwarded, or at the path in the variable after `$`.
    Path(String),
}

impl Value for ForwardAgent {
    const KIND: &'static str = "yes, no, socket path or $VARIABLE";
    fn parse(args: &mut Arguments) -> Result<Self, ValueError> {
        let word = args.required()?;
        Ok(match word.to_ascii_lowercase().as_str() {
            "yes" | "true" => Self::Yes,
            "no" | "false" => Self::No,
            _ => Self::Path(word),
        })
    }
    fn dump(&self, name: &str, out: &mut Vec<String>) {
        out.push(match self {
            Self::No => format!("{name} no"),
            Self::Yes => format!("{name} yes"),
            Self::Path(path) => format!("{name} {path}"),
        });
    }
}
