//! [`connect`]: reaches the host of a resolved configuration, checks its key and logs in.

use std::time::Instant;

use lh_config::client::JumpHost;
use lh_config::special::Port;
use lh_crypto::{PublicKey, SystemRandom};
use lh_driver::{Driver, Link, Workers};
use lh_sys::errno_text;
use lh_transport::{Config as TransportConfig, RekeyLimit, Transport};

use crate::algorithms;
use crate::carrier::Carrier;
use crate::client::{Client, channels};
use crate::error::ClientError;
use crate::failure::PeerName;
use crate::handshake::shake_hands;
use crate::hostkey::Policy;
use crate::known::KnownFiles;
use crate::log::Log;
use crate::login_setup::login_config;
use crate::options::{Options, SystemEnvironment};
use crate::pending::{self, Pending};
use crate::proxy::carry;
use crate::reach::{Reached, directly, through_command};
use crate::resumable;
use crate::ui::{LogLevel, UserInterface};
use crate::update_host_keys::HostKeyUpdate;

/// Longest chain of jump hosts; it ends a configuration that refers to itself.
const MAX_HOPS: usize = 8;

/// Reaches the host, checks its key and logs in.
///
/// # Errors
/// See [`ClientError`]: its text is what OpenSSH prints, and each means exit status 255.
pub fn connect(options: &Options, ui: &mut dyn UserInterface) -> Result<Client, ClientError> {
    let mut client = connect_unauthenticated(options, ui)?;
    client.log_in(ui)?;
    Ok(client)
}

/// Reaches the host and checks its key, without logging in. Channels that are opened before
/// [`Client::log_in`] cost no round trip of their own if the server is an lhsshd and a key logs in: their
/// messages are sent together with the login.
///
/// # Errors
/// As [`connect`].
pub fn connect_unauthenticated(options: &Options, ui: &mut dyn UserInterface) -> Result<Client, ClientError> {
    let mut log = options.log(ui);
    let ConnectedLink { mut link, carrier, update, pending } = connect_link(options, 0, None, &mut log)?;
    let config = &options.config;
    link.keep_early();
    let mut driver = Driver::new(link, channels(config));
    if let Some(flight) = &pending.flight {
        driver.control().promise_first(flight.window);
    }
    driver.set_workers(Workers::configured(*config.disable_mt_aes));
    if let Some(interval) = config.server_alive_interval.duration() {
        driver.set_keepalive(interval, *config.server_alive_count_max);
    }
    Ok(Client::new(driver, pending, update, carrier))
}

/// Reaches the host and checks its key, to resume a session.
fn connect_again(
    options: &Options,
    session: &PublicKey,
    log: &mut Log<'_>,
) -> Result<(Link, Option<Carrier>), ClientError> {
    connect_link(options, 0, Some(session), log).map(|connected| (connected.link, connected.carrier))
}

/// A link to a host whose key has been checked.
struct ConnectedLink {
    link: Link,
    carrier: Option<Carrier>,
    update: Option<HostKeyUpdate>,
    pending: Pending,
}

/// `session`: the host key of the session to resume, if there is one.
fn connect_link(
    options: &Options,
    depth: usize,
    session: Option<&PublicKey>,
    log: &mut Log<'_>,
) -> Result<ConnectedLink, ClientError> {
    let config = &options.config;
    if let Some(text) = config.refuse_connection.as_deref() {
        return Err(ClientError::Config(format!("Connection refused by configuration: {text}")));
    }
    log_notes(options, log);
    let started = Instant::now();
    let reached = reach(options, depth, log)?;
    // Addresses that did not answer must not use up the time limit of the one that did (`ConnectTimeout`).
    let started = if reached.address.is_some() { Instant::now() } else { started };
    let fallen_back;
    let options = match reached.fallen_back {
        None => options,
        // From here on the host has this port, for known_hosts and for tokens.
        Some(port) => {
            let mut other = options.clone();
            other.config.settings.port.force(Port(port));
            fallen_back = other;
            &fallen_back
        }
    };
    let config = &options.config;
    let peer = reached.address.map_or_else(PeerName::unknown, |address| PeerName {
        address: address.ip().to_canonical().to_string(),
        port: address.port(),
    });
    let policy =
        Policy { session: session.cloned(), ..Policy::configured(options, reached.address.as_ref())? };
    let mut known = KnownFiles::read(&policy, log)?;
    let mut transport = TransportConfig::client();
    transport.algorithms = algorithms::offered(config, &known.types(&policy), known.has_authority(&policy))?;
    let host_key_types =
        transport.algorithms.host_key.iter().map(|name| algorithms::key_type_of(name)).collect();
    if let Some(addendum) = version_addendum(options)? {
        transport.comments = addendum;
    }
    let resumes = depth == 0 && resumable::is_wanted(options);
    if resumes {
        transport.extensions.push((lh_resume::NAME.to_owned(), lh_resume::VERSION.into()));
    }
    transport.rekey = RekeyLimit { bytes: config.rekey_limit.bytes, interval: config.rekey_limit.interval };
    if log.shows(LogLevel::Debug1) {
        let login = login_config(options, reached.address, false)?;
        crate::identity::announce(&login.identities.files, log);
    }
    log.debug(|| format!("Local version string SSH-2.0-{}", transport.software));
    let transport = Transport::new(transport, Box::new(SystemRandom), Instant::now());
    let mut link = Link::new(transport, reached.stream);
    link.acknowledge_early();
    let deadline = config.connect_timeout.duration().map(|timeout| started + timeout);
    let warn_weak = *config.warn_weak_crypto == lh_config::enums::WarnWeakCrypto::Yes;
    let verified = shake_hands(&mut link, &policy, &mut known, &peer, deadline, warn_weak, log)?;
    let untrusted = verified.untrusted;
    let update =
        verified.vouched_for.then(|| HostKeyUpdate::configured(options, policy, host_key_types)).flatten();

    let flight = pending::first_flight(&mut link, options, untrusted, &peer)?;
    let pending = Pending {
        options: options.clone(),
        peer,
        address: reached.address,
        untrusted,
        flight,
        resumes,
        needed: reached.needed,
        connect_again,
    };
    Ok(ConnectedLink { link, carrier: reached.carrier, update, pending })
}

/// Returns `VersionAddendum` with its tokens expanded.
fn version_addendum(options: &Options) -> Result<Option<String>, ClientError> {
    let Some(text) = options.config.version_addendum.command() else { return Ok(None) };
    let expanded = options.config.tokens(&SystemEnvironment).expand(text);
    expanded.map(Some).map_err(|why| ClientError::Config(format!("VersionAddendum: {why}")))
}

/// Logs which parts of the configuration apply, and which have no effect.
fn log_notes(options: &Options, log: &mut Log<'_>) {
    for note in &options.config.notes {
        log.say(note.level, &note.text);
    }
}

/// Logs with `-v` where the configuration comes from, for a caller that does not connect.
pub fn log_configuration(options: &Options, ui: &mut dyn UserInterface) {
    let mut log = Log::new(ui, options.log_level, true);
    for note in options.config.notes.iter().filter(|note| note.level > LogLevel::Info) {
        log.say(note.level, &note.text);
    }
}

/// Opens a stream to the host: through a command, through jump hosts, or directly.
fn reach(options: &Options, depth: usize, log: &mut Log<'_>) -> Result<Reached, ClientError> {
    let config = &options.config;
    if let Some(command) = config.proxy_command.command() {
        // OpenSSH ignores ProxyJump when both are set; the loader has dropped the later one.
        return through_command(options, command, log);
    }
    let hops = config
        .expanded_proxy_jump(&SystemEnvironment)
        .map_err(|why| ClientError::Config(format!("ProxyJump: {why}")))?;
    if let Some((last, before)) = hops.split_last() {
        return through_hop(options, last, before, depth, log);
    }
    directly(options, log)
}

fn through_hop(
    options: &Options,
    hop: &JumpHost,
    before: &[JumpHost],
    depth: usize,
    log: &mut Log<'_>,
) -> Result<Reached, ClientError> {
    if depth >= MAX_HOPS {
        return Err(ClientError::Config(format!("more than {MAX_HOPS} jump hosts in a row")));
    }
    let hop_options = options.for_hop(hop, before).map_err(|error| ClientError::Config(error.to_string()))?;
    log.debug(|| format!("Connecting through jump host {}", hop.host));
    // In OpenSSH a process of its own connects to the jump host, and logs by its own configuration.
    let level = log.set_level(hop_options.log_level);
    let connected = connect_link(&hop_options, depth + 1, None, log).and_then(|connected| {
        let ConnectedLink { mut link, carrier, pending, .. } = connected;
        // A session at a jump host is never resumable, so nothing watches for signals.
        let (needed, _) = pending.log_in(&mut link, log)?;
        Ok((link, carrier, needed))
    });
    log.set_level(level);
    let (link, carrier, needed) = connected.map_err(|error| {
        if level == hop_options.log_level { error } else { error.logged_at(hop_options.log_level) }
    })?;
    let workers = Workers::configured(*hop_options.config.disable_mt_aes);
    let hop_channels = channels(&hop_options.config);
    let target = (options.config.host.as_str(), options.config.port());
    let (stream, end) = carry(link, carrier, hop_channels, workers, target)
        .map_err(|error| ClientError::Local(format!("jump host {}: {}", hop.host, errno_text(&error))))?;
    Ok(Reached { stream, carrier: Some(Carrier::JumpHost(end)), address: None, fallen_back: None, needed })
}
