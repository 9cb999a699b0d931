//! Values of keywords for canonical host names.

use crate::line::Arguments;
use crate::table::Value;
use crate::value_error::{Part, Syntax, ValueError};

/// `CanonicalizePermittedCNAMEs`: source and target pattern lists.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PermittedCnames(pub Vec<(String, String)>);

impl Value for PermittedCnames {
    const KIND: &'static str = "source:target pattern lists or none";
    fn parse(args: &mut Arguments) -> Result<Self, ValueError> {
        let words = args.remaining();
        if words.len() == 1 && words[0].eq_ignore_ascii_case("none") {
            return Ok(Self::default());
        }
        args.refuse_none_among(&words)?;
        let mut out = Vec::new();
        for word in words {
            let (source, target) = match (word.as_str(), word.split_once(':')) {
                ("*", _) => ("*", "*"),
                (_, Some((source, target))) if !source.is_empty() && !target.is_empty() => (source, target),
                _ => return Err(args.malformed(Syntax::Cname, &word)),
            };
            out.push((source.to_ascii_lowercase(), target.to_ascii_lowercase()));
        }
        Ok(Self(out))
    }
    fn dump(&self, name: &str, out: &mut Vec<String>) {
        // OpenSSH's dump prints this one keyword with a capital P, and scripts compare its output.
        let name = if name == "canonicalizepermittedcnames" { "canonicalizePermittedcnames" } else { name };
        if self.0.is_empty() {
            out.push(format!("{name} none"));
        } else {
            let words: Vec<String> = self.0.iter().map(|(s, t)| format!("{s}:{t}")).collect();
            out.push(format!("{name} {}", words.join(" ")));
        }
    }
}

/// `CanonicalDomains`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CanonicalDomains(pub Vec<String>);

impl Value for CanonicalDomains {
    const KIND: &'static str = "domain names or none";
    fn parse(args: &mut Arguments) -> Result<Self, ValueError> {
        let words = args.remaining();
        if words.len() == 1 && words[0].eq_ignore_ascii_case("none") {
            return Ok(Self::default());
        }
        args.refuse_none_among(&words)?;
        for word in &words {
            let first = word.chars().next();
            if word.is_empty() {
                return Err(args.missing(Part::Argument));
            }
            if !first.is_some_and(|c| c.is_ascii_alphanumeric() || c == '_') {
                return Err(args.malformed(Syntax::DomainStart, word));
            }
            if !word.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c)) {
                return Err(args.malformed(Syntax::DomainCharacters, word));
            }
            if word.contains("..") {
                return Err(args.malformed(Syntax::DomainDots, word));
            }
        }
        Ok(Self(words.into_iter().map(|w| w.trim_end_matches('.').to_ascii_lowercase()).collect()))
    }
    fn dump(&self, name: &str, out: &mut Vec<String>) {
        let text = if self.0.is_empty() { "none".to_string() } else { self.0.join(" ") };
        out.push(format!("{name} {text}"));
    }
}
