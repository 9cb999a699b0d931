//! A line of `sftp`'s command language.

mod line;
mod parse;
mod table;

pub use line::{Attribute, Command, CommandError, CopyFlags, DiskUse, Line, ListFlags, Order};
pub use parse::parse;
pub use table::{COMMANDS, Entry, Names};
