//! The statements of a server configuration, before they become values.

use std::sync::Arc;

use super::{ConnectionFacts, ServerConfig};
use crate::error::ConfigError;
use crate::server_table::ServerSettings;

#[derive(Debug, Clone, Default)]
pub(super) struct Source {}

impl Source {
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        Vec::new()
    }
    pub(super) fn from_bytes(_bytes: &[u8]) -> Result<Self, ConfigError> {
        Ok(Self::default())
    }
}

impl ServerConfig {
    pub(super) fn from_source(
        source: Arc<Source>,
        _facts: Option<&ConnectionFacts>,
    ) -> Result<Self, ConfigError> {
        let mut settings = ServerSettings::unset();
        settings.fill_defaults();
        Ok(Self { settings, notes: Vec::new(), source })
    }
}
