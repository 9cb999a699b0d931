//! Algorithm lists: whole lists, or edits of the default list with `+`, `-` and `^`.

pub use crate::algorithm_kind::AlgorithmKind;
use crate::environment::Environment;
use crate::line::Arguments;
use crate::pattern::{ListMatch, match_list};
use crate::table::Value;
use crate::value_error::ValueError;

/// A configured algorithm list. It is stored as written, because another crate has the default list that it
/// may edit.
///
/// Names are not checked here (this crate knows no algorithms): the loaders check them with
/// [`Environment::knows_algorithm`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AlgorithmList(pub Option<String>);

impl AlgorithmList {
    /// Returns the effective list, made from the given default list.
    ///
    /// `+a,b` appends, `-a,b` removes (patterns allowed), `^a,b` puts first; anything else replaces.
    /// Duplicates are removed.
    pub fn apply<S: AsRef<str>>(&self, default: &[S]) -> Vec<String> {
        let default = default.iter().map(AsRef::as_ref);
        let mut out: Vec<String> = Vec::new();
        let mut push = |name: &str| {
            if !name.is_empty() && !out.iter().any(|known| known == name) {
                out.push(name.to_string());
            }
        };
        match self.0.as_deref() {
            None => default.for_each(push),
            Some(text) => match text.as_bytes().first() {
                Some(b'+') => {
                    default.for_each(&mut push);
                    text[1..].split(',').for_each(push);
                }
                Some(b'-') => {
                    default
                        .filter(|name| match_list(name, &text[1..], false) != ListMatch::Yes)
                        .for_each(push);
                }
                Some(b'^') => {
                    text[1..].split(',').for_each(&mut push);
                    default.for_each(push);
                }
                _ => text.split(',').for_each(push),
            },
        }
        out
    }

    /// Returns the names in the list, without the edit prefix.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0
            .as_deref()
            .unwrap_or("")
            .trim_start_matches(['+', '-', '^'])
            .split(',')
            .filter(|n| !n.is_empty())
    }

    /// Returns whether this is a `-` list, whose names may be patterns.
    pub fn removes(&self) -> bool {
        self.0.as_deref().is_some_and(|text| text.starts_with('-'))
    }
}

impl Value for AlgorithmList {
    const KIND: &'static str = "algorithm list";
    fn parse(args: &mut Arguments) -> Result<Self, ValueError> {
        args.required().map(|text| Self(Some(text)))
    }
    fn dump(&self, name: &str, out: &mut Vec<String>) {
        if let Some(text) = &self.0 {
            out.push(format!("{name} {text}"));
        }
    }
    fn resolve_edit(&mut self, default: &dyn Fn() -> Vec<String>) {
        let list = self.apply(&default());
        self.0 = (!list.is_empty()).then(|| list.join(","));
    }
}

/// Replaces each pattern in a list by the names that it matches, as OpenSSH does. A `-` list stays unchanged,
/// because it is matched against the default.
pub(crate) fn expanded(list: &str, kind: AlgorithmKind, environment: &dyn Environment) -> String {
    if list.starts_with('-') || !list.contains(['*', '?']) {
        return list.to_owned();
    }
    let (edit, names) = list.split_at(list.len() - list.trim_start_matches(['+', '^']).len());
    let names = names.split(',').flat_map(|name| {
        let found =
            if name.contains(['*', '?']) { environment.matching_algorithms(kind, name) } else { Vec::new() };
        if found.is_empty() { vec![name] } else { found }
    });
    format!("{edit}{}", names.collect::<Vec<_>>().join(","))
}

/// Returns whether the list contains a name and all its names exist. Empty items, as in `a,b,`, are ignored;
/// the names of a `-` list need not exist.
pub(crate) fn all_known(list: &str, kind: AlgorithmKind, environment: &dyn Environment) -> bool {
    list.starts_with('-') || items(list).next().is_some() && first_unknown(list, kind, environment).is_none()
}

/// Returns the first name of a list that does not exist.
pub(crate) fn first_unknown<'a>(
    list: &'a str,
    kind: AlgorithmKind,
    environment: &dyn Environment,
) -> Option<&'a str> {
    // As in OpenSSH, only names of keys may be patterns: `Ciphers aes*` would include the CBC modes.
    let pattern = kind == AlgorithmKind::Key;
    items(list).find(|name| !environment.knows_algorithm(kind, name, pattern))
}

fn items(list: &str) -> impl Iterator<Item = &str> {
    list.trim_start_matches(['+', '^']).split(',').filter(|name| !name.is_empty())
}
