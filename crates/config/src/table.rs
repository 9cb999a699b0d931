//! The keyword table: one row per keyword, from which the typed struct, the parser, the defaults, the `-G`/`-T` dump and the
//! documentation all come. (The idea is that of OpenSSH's newer server table; the point is that a keyword cannot be parsed
//! without being dumped, or have a default that its own parser would refuse.)

use std::fmt;
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Arc;

use crate::line::Arguments;

/// How far a keyword is supported by the programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// It does what its manual page says.
    Works,
    /// It is read and checked and then has no effect here, for the reason given; no fault is hidden by that.
    AcceptedWithoutEffect(&'static str),
    /// It works where the programs are built with this Cargo feature. Elsewhere it is read and checked, and a note says that it is
    /// unsupported.
    Feature {
        /// The feature.
        name: &'static str,
        /// Whether this is such a build.
        on: bool,
    },
    /// Old: read and dropped, as OpenSSH does.
    Deprecated,
    /// It is read and checked; the program does not act on it yet. Whoever implements it changes this to `Works`.
    NotYet,
}

/// The state of keywords about Kerberos.
pub(crate) const GSSAPI: Status = Status::Feature { name: "gssapi", on: cfg!(feature = "gssapi") };

/// Where a keyword may stand in `sshd_config`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Only before the first `Match`.
    Global,
    /// Also inside `Match` blocks.
    Match,
}

/// One row of a keyword table.
#[derive(Debug, Clone, Copy)]
pub struct Keyword {
    /// The keyword as its manual page spells it.
    pub name: &'static str,
    /// Older spellings that mean the same.
    pub aliases: &'static [&'static str],
    /// What kind of value it takes, for the documentation.
    pub kind: &'static str,
    /// The default, in the syntax of the file; empty when there is none.
    pub default: &'static str,
    /// Where it may stand (always `Match` for `ssh_config`, where every keyword may).
    pub scope: Scope,
    /// How far it works.
    pub status: Status,
    /// The text for the documentation: lines that say what it does, `Default: …` where the default is no value that a file could
    /// have, and ``Example: `…` ``.
    pub doc: &'static str,
}

impl Keyword {
    /// What the keyword means, as one paragraph.
    pub fn meaning(&self) -> String {
        let lines = self.doc.lines().map(str::trim);
        let text = lines.take_while(|line| !line.starts_with("Default: ") && !line.starts_with("Example: "));
        text.collect::<Vec<_>>().join(" ")
    }

    /// The default for a reader: the value, or in words what happens where the keyword is not set.
    pub fn default_in_words(&self) -> String {
        if !self.default.is_empty() {
            return self.default.to_owned();
        }
        let lines = self.doc.lines().map(str::trim).skip_while(|line| !line.starts_with("Default: "));
        let text = lines.take_while(|line| !line.starts_with("Example: ")).collect::<Vec<_>>().join(" ");
        text.trim_start_matches("Default: ").to_owned()
    }

    /// A line of a configuration file that sets it.
    pub fn example(&self) -> &'static str {
        let line = self.doc.lines().find_map(|line| line.trim().strip_prefix("Example: "));
        line.unwrap_or_default().trim_matches('`')
    }

    /// What to say when this value is configured and does less than its manual page promises; `None` when there is nothing to say,
    /// as for values that only confirm the default or switch something off.
    pub(crate) fn shortfall(&self, value: &str) -> Option<String> {
        let value = value.trim();
        let off = ["no", "none", "false"].iter().any(|word| value.eq_ignore_ascii_case(word));
        match self.status {
            Status::AcceptedWithoutEffect(why) => Some(format!("{} has no effect: {why}", self.name)),
            Status::NotYet if !off && !value.eq_ignore_ascii_case(self.default) => {
                Some(format!("{} is not supported yet", self.name))
            }
            Status::NotYet | Status::Works | Status::Deprecated | Status::Feature { .. } => None,
        }
    }

    /// Whether this build lacks what the keyword is about.
    pub(crate) fn is_unsupported(&self) -> bool {
        matches!(self.status, Status::Feature { on: false, .. })
    }
}

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Origin {
    /// Nobody set it.
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
            Origin::File { path, line } => write!(f, "{}:{line}", path.display()),
        }
    }
}

/// A value and where it came from. Dereferences to the value.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Setting<T> {
    /// The value: what was configured, or the default.
    pub value: T,
    /// Who set it.
    pub origin: Origin,
}

impl<T> Setting<T> {
    /// Whether the user or administrator set it (or a flag did).
    pub fn is_set(&self) -> bool {
        self.origin != Origin::Default
    }

    /// Sets it as a command-line flag does, whatever was there.
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

/// A type that can be the value of a keyword.
pub trait Value: Sized + Default + Clone {
    /// What it looks like, for the documentation ("yes/no", "number").
    const KIND: &'static str;
    /// Whether later lines add to earlier ones instead of being ignored.
    const ACCUMULATES: bool = false;

    /// Reads the value.
    ///
    /// # Errors
    /// The message to print after `FILE line N: `.
    fn parse(args: &mut Arguments) -> Result<Self, String>;

    /// Adds a line's value to what was there before it, be it nothing (only for accumulating kinds).
    fn append(&mut self, _later: Self) {}

    /// Pushes the line or lines of a dump; nothing when there is nothing to say.
    fn dump(&self, name: &str, out: &mut Vec<String>);
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
            /// Nothing set: no defaults either.
            pub(crate) fn unset() -> Self {
                Self { $($field: Default::default()),* }
            }

            /// Reads the value of the keyword in row `row`; stores it when `active` and not set before (or adds it, for kinds
            /// that accumulate).
            pub(crate) fn set(
                &mut self,
                row: usize,
                args: &mut $crate::line::Arguments,
                origin: &$crate::table::Origin,
                active: bool,
            ) -> Result<(), String> {
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

            /// Gives every keyword that nobody set its default.
            pub(crate) fn fill_defaults(&mut self) {
                $(
                    if !self.$field.is_set() && !$default.is_empty() {
                        self.$field.value = $crate::table::default_value::<$ty>($name, $default);
                    }
                )*
            }

            /// Values set in `over` replace ours (a `Match` block over the global section).
            #[allow(dead_code)]
            pub(crate) fn overlay(&mut self, over: Self) {
                $( if over.$field.is_set() { self.$field = over.$field; } )*
            }

            /// One line per keyword and value, in table order; `lower`: keywords in lower case.
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

            /// Where every keyword that was set came from, in table order.
            pub fn origins(&self) -> Vec<(&'static str, $crate::table::Origin)> {
                let mut out = Vec::new();
                $( if self.$field.is_set() { out.push(($name, self.$field.origin.clone())); } )*
                out
            }
        }
    };
}
pub(crate) use keyword_table;

/// The default of a keyword, read by its own parser. A test checks that every default in the tables parses.
pub(crate) fn default_value<T: Value>(name: &'static str, text: &str) -> T {
    Arguments::new(name, crate::line::Dialect::Client, text)
        .ok()
        .and_then(|mut args| T::parse(&mut args).ok())
        .unwrap_or_default()
}

/// The row of `name` (any case, aliases too).
pub fn find(table: &[Keyword], name: &str) -> Option<usize> {
    table.iter().position(|row| {
        row.name.eq_ignore_ascii_case(name)
            || row.aliases.iter().any(|alias| alias.eq_ignore_ascii_case(name))
    })
}
