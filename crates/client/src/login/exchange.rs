//! What the login methods have in common: the packets, the protocol's state machine and the settings.

use std::os::fd::BorrowedFd;

use bytes::Bytes;
use lh_auth::client::Client as Machine;
use lh_wire::PacketSink;

use crate::error::ClientError;
use crate::identity::IdentityConfig;
use crate::log::Log;

/// The packets of one connection, as the login uses them.
pub(crate) trait Packets {
    /// Returns the sink for requests.
    fn sink(&mut self) -> &mut dyn PacketSink;
    /// Sends queued packets, then waits for the next payload.
    fn next(&mut self, log: &mut Log<'_>) -> Result<Bytes, ClientError>;
    /// Returns the value of the server's `server-sig-algs`, if any (it may arrive late).
    fn server_sig_algs(&self) -> Option<String>;
    /// Returns the host key that signatures must include, if the server supports that (it may announce it
    /// late) and the configuration enables it. Such a signature is useless at another host.
    fn bound_host_key(&self) -> Option<Vec<u8>>;
    /// True if the server is known to handle requests in sequence however many arrive at once, and has sent
    /// its extension information.
    fn handles_several_requests(&mut self, log: &mut Log<'_>) -> Result<bool, ClientError>;
    /// True if the server has announced that users in general may log in with keys.
    fn wants_keys(&self) -> bool {
        false
    }
    /// Allows channel messages after the last request, which may log the user in.
    fn send_early_data(&mut self) {}
    /// Drops the early channel messages, because the request did not log the user in.
    fn early_dropped(&mut self) {}
    /// Returns the descriptor of the connection, if there is one.
    fn descriptor(&self) -> Option<BorrowedFd<'_>>;
}

/// The settings of a login.
#[derive(Debug, Clone)]
pub(crate) struct LoginConfig {
    pub(crate) user: String,
    /// The host's name in prompts and messages.
    pub(crate) host: String,
    /// `HostKeyAlias`, which replaces the host's name in prompts.
    pub(crate) alias: Option<String>,
    /// The peer in the "Authenticated to" line: `[IP]:PORT` or `via proxy`.
    pub(crate) peer: String,
    /// Permitted methods, in order of preference.
    pub(crate) methods: Vec<String>,
    pub(crate) password_prompts: u32,
    pub(crate) kbd_interactive_devices: String,
    /// `PubkeyAcceptedAlgorithms`.
    pub(crate) pubkey_algorithms: Vec<String>,
    /// `HostbasedAcceptedAlgorithms`.
    pub(crate) hostbased_algorithms: Vec<String>,
    /// The user's name on this host.
    pub(crate) local_user: String,
    /// Whether Kerberos credentials are delegated (`GSSAPIDelegateCredentials`).
    pub(crate) delegate: bool,
    /// Smallest accepted RSA key, bits.
    pub(crate) required_rsa_size: u32,
    pub(crate) identities: IdentityConfig,
}

/// The exchange of one login with the server.
pub(super) struct Exchange<'a> {
    pub(super) packets: &'a mut dyn Packets,
    pub(super) machine: Machine,
    pub(super) config: &'a LoginConfig,
}

impl Exchange<'_> {
    /// Returns the host's name for prompts.
    pub(super) fn shown_host(&self) -> &str {
        self.config.alias.as_deref().unwrap_or(&self.config.host)
    }
}
