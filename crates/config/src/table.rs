//! The keyword table: one row per keyword is the source of the typed struct, the parser, the defaults, the
//! `-G`/`-T` dump and the documentation. So a keyword cannot be parsed without being dumped, or have a
//! default that its own parser refuses. (OpenSSH's newer server table has the same idea.)

use std::fmt;
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Arc;

use crate::line::Arguments;
use crate::value_error::ValueError;

/// The programs' support for a keyword.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// The keyword works as its manual page says.
    Works,
    /// The keyword is parsed and checked but has no effect, for this reason; ignoring it does no harm.
    AcceptedWithoutEffect(&'static str),
    /// The keyword works where this library is installed, in builds that load libraries. Other builds (static
    /// ones) parse and check it, and log that it is unsupported.
    Library {
        /// Name of the library for messages.
        name: &'static str,
        /// Whether this build loads libraries.
        on: bool,
    },
    /// An old keyword: parsed and ignored, as in OpenSSH.
    Deprecated,
}

/// Status of the Kerberos keywords.
pub(crate) const GSSAPI: Status = Status::Library {
    name: "MIT Kerberos (libgssapi_krb5)",
    on: cfg!(all(target_os = "linux", not(target_env = "musl"))),
};

/// The places where a keyword is allowed in `sshd_config`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Only before the first `Match` line.
    Global,
    /// Also inside `Match` blocks.
    Match,
}

/// One row of a keyword table.
#[derive(Debug, Clone, Copy)]
pub struct Keyword {
    /// The keyword in its manual page's spelling.
    pub name: &'static str,
    /// Older names of the keyword.
    pub aliases: &'static [&'static str],
    /// Syntax of the value, for the documentation.
    pub kind: &'static str,
    /// Fixed words among its values, synonyms included.
    pub words: &'static [&'static str],
    /// The default, in the syntax of the file; empty if there is none.
    pub default: &'static str,
    /// Scope of the keyword; always `Match` for `ssh_config`, where every keyword is permitted anywhere.
    pub scope: Scope,
    /// The programs' support for the keyword.
    pub status: Status,
    /// The text for the documentation: lines with its meaning, `Default: …` if an unset keyword does what no
    /// value in the file's syntax says, and ``Example: `…` ``.
    pub doc: &'static str,
}

impl Keyword {
    /// Returns the keyword's meaning, as one paragraph.
    pub fn meaning(&self) -> String {
        let lines = self.doc.lines().map(str::trim);
        let text = lines.take_while(|line| !line.starts_with("Default: ") && !line.starts_with("Example: "));
        text.collect::<Vec<_>>().join(" ")
    }

    /// Returns the default for the documentation: a text about the behaviour of an unset keyword, or the
    /// value.
    pub fn default_in_words(&self) -> String {
        let lines = self.doc.lines().map(str::trim).skip_while(|line| !line.starts_with("Default: "));
        let text = lines.take_while(|line| !line.starts_with("Example: ")).collect::<Vec<_>>().join(" ");
        match text.strip_prefix("Default: ") {
            Some(text) => text.to_owned(),
            None => self.default.to_owned(),
        }
    }

    /// Returns an example line for a configuration file.
    pub fn example(&self) -> &'static str {
        let line = self.doc.lines().find_map(|line| line.trim().strip_prefix("Example: "));
        line.unwrap_or_default().trim_matches('`')
    }

    /// Returns the note for a configuration that sets a keyword without effect.
    pub(crate) fn no_effect_note(&self) -> Option<String> {
        match self.status {
            Status::AcceptedWithoutEffect(why) => Some(format!("{} has no effect: {why}", self.name)),
            Status::Works | Status::Deprecated | Status::Library { .. } => None,
        }
    }

    /// Returns whether this build cannot load the keyword's library.
    pub(crate) fn is_unsupported(&self) -> bool {
        matches!(self.status, Status::Library { on: false, .. })
    }
}

/// Source of a value.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Origin {
    /// The keyword is unset.
    #[default]
    Default,
    /// A flag or `-o` on the command line.
    CommandLine,
    /// A line of a file (counted from 1).
    File {
        /// The file.
        path: Arc<PathBuf>,
        /// The line.
        line: usize,
    },
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Default => f.write_str("default"),
            Origin::CommandLine => f.write_str("command line"),
            Origin::File { path, line } => write!(f, "{} line {line}", path.display()),
        }
    }
}

/// A value and its origin. Dereferences to the value.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Setting<T> {
    /// The configured value, or the default.
    pub value: T,
    /// Source of the value.
    pub origin: Origin,
}

impl<T> Setting<T> {
    /// Returns whether a file or the command line set the value.
    pub fn is_set(&self) -> bool {
        self.origin != Origin::Default
    }

    /// Sets the value like a command-line flag, replacing any other.
    pub fn force(&mut self, value: T) {
        self.value = value;
        self.origin = Origin::CommandLine;
    }
}

impl<T> Deref for Setting<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.value
    }
}

/// A type for the values of keywords.
pub trait Value: Sized + Default + Clone {
    /// The syntax for the documentation ("yes/no", "number").
    const KIND: &'static str;
    /// Fixed words among the values, synonyms included.
    const WORDS: &'static [&'static str] = &[];
    /// Whether later lines add to earlier ones instead of being ignored.
    const ACCUMULATES: bool = false;

    /// Parses the value.
    ///
    /// # Errors
    /// The fault of the value.
    fn parse(args: &mut Arguments) -> Result<Self, ValueError>;

    /// Adds a later line's value to the current one, which may be empty (only for accumulating types).
    fn append(&mut self, _later: Self) {}

    /// Pushes the line or lines of a dump; none if the value is not dumped.
    fn dump(&self, name: &str, out: &mut Vec<String>);

    /// Replaces an edit of a default list by the list in effect (only for lists of algorithms). `default`
    /// returns the default list of the keyword.
    fn resolve_edit(&mut self, _default: &dyn Fn() -> Vec<String>) {}
}

/// Generates the typed configuration struct and its table.
macro_rules! keyword_table {
    (
        dialect $dialect:ident;
        $(#[$meta:meta])*
        pub struct $config:ident;
        $(#[$table_meta:meta])*
        pub static $table:ident;
        $(
            $(#[doc = $doc:literal])+
            $field:ident: $ty:ty = $default:literal, $name:literal $([$($alias:literal),*])?, $scope:ident, $status:expr;
        )*
    ) => {
        $(#[$table_meta])*
        pub static $table: &[$crate::table::Keyword] = &[
            $($crate::table::Keyword {
                name: $name,
                aliases: &[$($($alias),*)?],
                kind: <$ty as $crate::table::Value>::KIND,
                words: <$ty as $crate::table::Value>::WORDS,
                default: $default,
                scope: $crate::table::Scope::$scope,
                status: $status,
                doc: concat!($($doc, "\n"),+),
            }),*
        ];

        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct $config {
            $($(#[doc = $doc])+ pub $field: $crate::table::Setting<$ty>,)*
        }

        #[allow(non_camel_case_types)]
        enum Row { $($field),* }

        impl $config {
            /// Returns a struct with all keywords unset, without defaults.
            pub(crate) fn unset() -> Self {
                Self { $($field: Default::default()),* }
            }

            /// Parses the value of the keyword in row `row`. Stores it if `active` and unset; adds it for
            /// accumulating types.
            pub(crate) fn set(
                &mut self,
                row: usize,
                args: &mut $crate::line::Arguments,
                origin: &$crate::table::Origin,
                active: bool,
            ) -> Result<(), $crate::value_error::ValueError> {
                $(
                    if row == Row::$field as usize {
                        let value = <$ty as $crate::table::Value>::parse(args)?;
                        if active {
                            let first = !self.$field.is_set();
                            if <$ty as $crate::table::Value>::ACCUMULATES {
                                $crate::table::Value::append(&mut self.$field.value, value);
                            } else if first {
                                self.$field.value = value;
                            }
                            if first {
                                self.$field.origin = origin.clone();
                            }
                        }
                        return Ok(());
                    }
                )*
                Ok(())
            }

            /// Sets each unset keyword to its default.
            pub(crate) fn fill_defaults(&mut self) {
                $(
                    if !self.$field.is_set() && !$default.is_empty() {
                        self.$field.value = $crate::table::default_value::<$ty>($name, $default);
                    }
                )*
            }

            /// Replaces values by those that are set in `over` (a `Match` block over the global section).
            #[allow(dead_code)]
            pub(crate) fn overlay(&mut self, over: Self) {
                $( if over.$field.is_set() { self.$field = over.$field; } )*
            }

            /// Replaces each list of algorithms by the one in effect. `defaults` returns the default list of
            /// a keyword.
            pub(crate) fn resolve_edits(&mut self, defaults: &dyn Fn(&str) -> Vec<String>) {
                $( $crate::table::Value::resolve_edit(&mut self.$field.value, &|| defaults($name)); )*
            }

            /// Returns one line per keyword and value, in table order; `lower` prints keywords in lower case.
            pub(crate) fn dump_lines(&self, lower: bool) -> Vec<String> {
                let mut out = Vec::new();
                $(
                    {
                        let name = if lower { $name.to_ascii_lowercase() } else { $name.to_string() };
                        $crate::table::Value::dump(&self.$field.value, &name, &mut out);
                    }
                )*
                out
            }

            /// Returns the origins of all keywords that are set, in table order.
            pub fn origins(&self) -> Vec<(&'static str, $crate::table::Origin)> {
                let mut out = Vec::new();
                $( if self.$field.is_set() { out.push(($name, self.$field.origin.clone())); } )*
                out
            }
        }
    };
}
pub(crate) use keyword_table;

/// Returns the default of a keyword, parsed by its own parser. A test checks that every default in the tables
/// parses.
pub(crate) fn default_value<T: Value>(name: &'static str, text: &str) -> T {
    Arguments::new(name, crate::line::Dialect::Client, text)
        .ok()
        .and_then(|mut args| T::parse(&mut args).ok())
        .unwrap_or_default()
}

/// Returns the row of the keyword `name` (in any case; also by alias).
pub fn find(table: &[Keyword], name: &str) -> Option<usize> {
    table.iter().position(|row| {
        row.name.eq_ignore_ascii_case(name)
            || row.aliases.iter().any(|alias| alias.eq_ignore_ascii_case(name))
    })
}
