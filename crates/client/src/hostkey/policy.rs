//! Policy for host keys from the configuration: where known keys are stored, and how strictly they are
//! enforced.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use lh_crypto::{FingerprintHash, PublicKey};

use crate::algorithms;
use crate::error::ClientError;
use crate::known_command::KnownHostsCommand;
use crate::options::{Options, SystemEnvironment};

/// `StrictHostKeyChecking`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Strict {
    /// `yes`: unknown and changed keys are refused.
    Yes,
    /// `ask`: the user decides about unknown keys.
    #[default]
    Ask,
    /// `accept-new`: unknown keys are accepted and remembered, changed ones refused.
    AcceptNew,
    /// `no` or `off`: as `accept-new`; a changed key only disables the methods that would reveal a secret.
    Off,
}

/// Where the known keys are stored, and how strictly they are enforced.
#[derive(Debug, Clone)]
pub(crate) struct Policy {
    pub(crate) strict: Strict,
    /// The host's name in known_hosts: lower case, `[host]:port` when the port is not 22, or `HostKeyAlias`.
    pub(crate) name: String,
    /// The name without its port, if that is optional: for entries that cover all ports of the host.
    pub(crate) portless: Option<String>,
    /// The host's name in certificates: without port, or `HostKeyAlias`.
    pub(crate) principal: String,
    /// `CASignatureAlgorithms`.
    pub(crate) ca_algorithms: Vec<String>,
    /// The address in the form of known_hosts; `None` behind a proxy.
    pub(crate) address: Option<String>,
    /// The address belongs to this machine and `NoHostAuthenticationForLocalhost` is set.
    pub(crate) skip_localhost: bool,
    /// `UserKnownHostsFile`; new keys go to the first.
    pub(crate) user_files: Vec<PathBuf>,
    /// `~/.ssh`: the only directory that is made for a new file.
    pub(crate) ssh_directory: PathBuf,
    /// `GlobalKnownHostsFile`.
    pub(crate) global_files: Vec<PathBuf>,
    /// `RevokedHostKeys`.
    pub(crate) revoked_files: Vec<PathBuf>,
    /// `HashKnownHosts`.
    pub(crate) hash: bool,
    pub(crate) fingerprint: FingerprintHash,
    /// `VisualHostKey`.
    pub(crate) visual: bool,
    /// Checks beyond the known_hosts files.
    pub(crate) checks: Checks,
    /// The host key of the session to resume over this connection (`Resume`). Any other key must already be
    /// known.
    pub(crate) session: Option<PublicKey>,
}

/// Checks besides the known_hosts files, all off by default.
#[derive(Debug, Clone, Default)]
pub(crate) struct Checks {
    /// `CheckHostIP`: the key must fit the address too.
    pub(crate) ip: bool,
    /// `VerifyHostKeyDNS`.
    pub(crate) dns: Dns,
    /// The name for the DNS query; `None` for addresses.
    pub(crate) dns_name: Option<String>,
    /// Result of the DNS query: whether the fingerprint was found; `None` before it.
    pub(crate) dns_found: Option<bool>,
    /// `RequiredRSASize`, bits: a shorter RSA key is refused.
    pub(crate) least_rsa_bits: u32,
    /// `KnownHostsCommand`.
    pub(crate) command: Option<KnownHostsCommand>,
    /// The user has not set the order of host key algorithms, so the command is asked for the known types.
    pub(crate) order: bool,
}

/// `VerifyHostKeyDNS`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Dns {
    /// Do not query DNS.
    #[default]
    No,
    /// Show the result to the user.
    Ask,
    /// A fingerprint from a secure answer is sufficient.
    Yes,
}

impl Policy {
    /// Returns the policy of a configuration for the host at `address`; `None` behind a proxy.
    ///
    /// # Errors
    /// `CASignatureAlgorithms` names unknown algorithms, or `GlobalKnownHostsFile` an unknown user.
    pub(crate) fn configured(options: &Options, address: Option<&SocketAddr>) -> Result<Self, ClientError> {
        use lh_config::enums::StrictHostKeyChecking;
        let config = &options.config;
        let port = config.port();
        let name = match config.host_key_alias.as_deref() {
            // An alias is used unchanged, because it may stand for many ports.
            Some(alias) => alias.to_owned(),
            None => known_name(&config.host.to_ascii_lowercase(), port),
        };
        let loopback = address.is_some_and(|address| is_loopback(&address.ip()));
        Ok(Self {
            strict: match *config.strict_host_key_checking {
                StrictHostKeyChecking::Yes => Strict::Yes,
                StrictHostKeyChecking::No => Strict::Off,
                StrictHostKeyChecking::Ask => Strict::Ask,
                StrictHostKeyChecking::AcceptNew => Strict::AcceptNew,
            },
            portless: (config.host_key_alias.as_deref().is_none() && port != 22)
                .then(|| config.host.to_ascii_lowercase()),
            principal: config
                .host_key_alias
                .as_deref()
                .map_or_else(|| config.host.to_ascii_lowercase(), str::to_owned),
            ca_algorithms: algorithms::authorities(config)?,
            name,
            address: address.map(|a| known_name(&a.ip().to_canonical().to_string(), port)),
            skip_localhost: *config.no_host_authentication_for_localhost && loopback,
            user_files: config.user_known_hosts_files(),
            ssh_directory: config.account.home.join(".ssh"),
            global_files: config
                .global_known_hosts_files(&SystemEnvironment)
                .map_err(|why| ClientError::Config(why.to_string()))?,
            // The configuration loader has expanded them.
            revoked_files: config.revoked_host_keys.list().iter().map(PathBuf::from).collect(),
            hash: *config.hash_known_hosts,
            fingerprint: options.fingerprint_hash(),
            visual: *config.visual_host_key,
            checks: checks(options, loopback),
            session: None,
        })
    }
}

/// The sources besides the files that are checked for a host's key.
fn checks(options: &Options, loopback: bool) -> Checks {
    use lh_config::enums::YesNoAsk;
    let config = &options.config;
    Checks {
        // An alias has no address of its own, and a loopback address stands for many hosts.
        ip: *config.check_host_ip && config.host_key_alias.is_none() && !loopback,
        dns: match *config.verify_host_key_dns {
            YesNoAsk::No => Dns::No,
            YesNoAsk::Ask => Dns::Ask,
            YesNoAsk::Yes => Dns::Yes,
        },
        dns_name: config.host.parse::<std::net::IpAddr>().is_err().then(|| config.host.clone()),
        dns_found: None,
        order: !algorithms::ordered_by_user(config),
        least_rsa_bits: *config.required_rsa_size,
        command: config.known_hosts_command.command().map(|text| KnownHostsCommand {
            text: text.to_owned(),
            tokens: config.tokens(&SystemEnvironment),
            fingerprint: options.fingerprint_hash(),
        }),
    }
}

/// The name of `host` in known_hosts: includes the port unless that is 22.
pub(crate) fn known_name(host: &str, port: u16) -> String {
    if port == 22 { host.to_owned() } else { format!("[{host}]:{port}") }
}

/// True for loopback addresses.
pub(crate) fn is_loopback(address: &IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.is_loopback(),
        IpAddr::V6(v6) => v6.is_loopback() || v6.to_ipv4_mapped().is_some_and(|v4| v4.is_loopback()),
    }
}
