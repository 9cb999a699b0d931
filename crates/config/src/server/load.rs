//! From files to statements.

use std::path::Path;

use super::source::Source;
use crate::environment::Environment;
use crate::error::ConfigError;

pub(super) fn read(
    _file: Option<&Path>,
    _command_line: &[String],
    _environment: &dyn Environment,
) -> Result<Source, ConfigError> {
    Ok(Source::default())
}
