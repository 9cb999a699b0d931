//! The administrator's settings of a server.

/// Options of a [`super::Server`], with the flags of sftp-server(8) they come from.
#[derive(Debug, Clone, Default)]
pub struct ServerOptions {
    /// `-R`: refuse all requests that change the file system.
    pub read_only: bool,
    /// `-p`: when present, only requests with these names are served.
    pub allow: Option<Vec<String>>,
    /// `-P`: requests with these names are refused. See [`super::request_table`] for the names.
    pub deny: Vec<String>,
    /// Name of the user, for the log line `session opened for local user NAME from [ADDRESS]`.
    pub user: String,
    /// The client's address, for the log.
    pub address: String,
    /// Limit of open handles. `None`: the file system's limit ([`crate::fs::FileSystem::max_open`]).
    pub max_handles: Option<u64>,
}

impl ServerOptions {
    /// Returns the first name in the lists that is not the name of a request. The caller reports it when it
    /// reads the configuration.
    pub fn unknown_request(&self) -> Option<&str> {
        let known = |name: &str| super::request_table().iter().any(|info| info.name == name);
        self.allow.iter().flatten().chain(&self.deny).map(String::as_str).find(|name| !known(name))
    }

    /// Returns true if the request with this name may be served.
    pub(super) fn permits_named(&self, name: &str) -> bool {
        super::request_table().iter().any(|info| info.name == name && self.permits(info))
    }

    /// Returns true if this request may be served.
    pub(super) fn permits(&self, info: &super::RequestInfo) -> bool {
        let may = |wanted: &str| {
            let listed = |list: &[String]| list.iter().any(|name| name == wanted);
            !listed(&self.deny) && self.allow.as_ref().is_none_or(|allow| listed(allow))
        };
        !(self.read_only && info.writes) && may(info.name) && info.parts.iter().all(|part| may(part))
    }
}
