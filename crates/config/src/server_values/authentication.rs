//! Values of keywords for the authentication of users.

use crate::line::Arguments;
use crate::table::Value;
use crate::value_error::{Bound, Part, Syntax, ValueError, ValueFault};

/// `AuthenticationMethods`: alternatives, each a list of methods in order (`publickey`, `password`,
/// `keyboard-interactive:pam`). Empty: any one method suffices.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AuthenticationMethods(pub Vec<Vec<String>>);

const METHODS: &[&str] =
    &["none", "publickey", "password", "keyboard-interactive", "hostbased", "gssapi-with-mic"];

impl Value for AuthenticationMethods {
    const KIND: &'static str = "any, or method,method… words";
    fn parse(args: &mut Arguments) -> Result<Self, ValueError> {
        let words = args.remaining();
        if words.is_empty() {
            return Err(args.missing(Part::Methods));
        }
        if words.len() == 1 && words[0] == "any" {
            return Ok(Self::default());
        }
        if words.iter().any(|word| word == "any") {
            return Err(args.refused(ValueFault::NotAlone("any")));
        }
        let mut out = Vec::new();
        for word in &words {
            let list: Vec<String> = word.split(',').map(str::to_string).collect();
            for method in &list {
                let (method, _) = method.split_once(':').unwrap_or((method, ""));
                if !METHODS.contains(&method) {
                    return Err(args.unknown_word(method));
                }
            }
            out.push(list);
        }
        Ok(Self(out))
    }
    fn dump(&self, name: &str, out: &mut Vec<String>) {
        if self.0.is_empty() {
            out.push(format!("{name} any"));
        } else {
            let words: Vec<String> = self.0.iter().map(|list| list.join(",")).collect();
            out.push(format!("{name} {}", words.join(" ")));
        }
    }
}

/// `PermitUserEnvironment`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum PermitUserEnvironment {
    /// The user's files set no variables.
    #[default]
    No,
    /// The user's files may set any variable.
    Yes,
    /// Variables whose names match this pattern list.
    Only(String),
}

impl Value for PermitUserEnvironment {
    const KIND: &'static str = "yes, no or a pattern list";
    fn parse(args: &mut Arguments) -> Result<Self, ValueError> {
        let word = args.required()?;
        Ok(match word.as_str() {
            "yes" => Self::Yes,
            "no" => Self::No,
            _ => Self::Only(word),
        })
    }
    fn dump(&self, name: &str, out: &mut Vec<String>) {
        out.push(match self {
            Self::No => format!("{name} no"),
            Self::Yes => format!("{name} yes"),
            Self::Only(list) => format!("{name} {list}"),
        });
    }
}

/// `PubkeyAuthOptions`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PubkeyAuthOptions {
    /// Signatures of security keys must include a touch.
    pub touch_required: bool,
    /// Signatures of security keys must include user verification.
    pub verify_required: bool,
    /// Number of queries about unacceptable keys that do not count as failures. `None` if the keyword is set
    /// without `max-pk-ok`: the first query counts, as in OpenSSH 10.6.
    pub free_queries: Option<u8>,
}

impl Value for PubkeyAuthOptions {
    const KIND: &'static str = "none, touch-required, verify-required, max-pk-ok:number";
    fn parse(args: &mut Arguments) -> Result<Self, ValueError> {
        let mut out = Self::default();
        for word in args.remaining() {
            match word.to_ascii_lowercase().as_str() {
                "none" => {}
                "touch-required" => out.touch_required = true,
                "verify-required" => out.verify_required = true,
                lower => match lower.strip_prefix("max-pk-ok:") {
                    Some(number) => out.free_queries = Some(free_queries(number, args)?),
                    None => return Err(args.unknown_word(&word)),
                },
            }
        }
        Ok(out)
    }
    fn dump(&self, name: &str, out: &mut Vec<String>) {
        let mut words = Vec::new();
        if self.touch_required {
            words.push("touch-required".to_owned());
        }
        if self.verify_required {
            words.push("verify-required".to_owned());
        }
        if words.is_empty() {
            words.push("none".to_owned());
        }
        words.extend(self.free_queries.map(|number| format!("max-pk-ok:{number}")));
        out.push(format!("{name} {}", words.join(" ")));
    }
}

/// Parses the number of `max-pk-ok`: 0 to 255.
fn free_queries(number: &str, args: &Arguments) -> Result<u8, ValueError> {
    let wide: i64 = number.parse().map_err(|_| args.malformed(Syntax::Number, number))?;
    u8::try_from(wide).map_err(|_| {
        let bound = if wide < 0 { Bound::NumberTooSmall } else { Bound::NumberTooLarge };
        args.refused(ValueFault::OutOfRange(bound))
    })
}
