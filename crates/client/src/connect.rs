//! [`connect`]: everything between a resolved configuration and a session.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use lh_config::client::JumpHost;
use lh_config::client_table::ClientSettings;
use lh_config::special::Port;
use lh_crypto::{PublicKey, SystemRandom};
use lh_driver::{
    ChannelHandler, ChannelId, ChannelOptions, Control, Driver, DriverError, Link, LinkError, Stream,
    WindowPolicy, Workers,
};
use lh_sys::errno_text;
use lh_sys::tuning::Tuning;
use lh_transport::{Config as TransportConfig, RekeyLimit, Transport};

use crate::AgentForward;
use crate::algorithms;
use crate::dial::{Dial, Shortfall, UnusableSource};
use crate::error::ClientError;
use crate::failure::{PeerName, link_failed};
use crate::handshake::{DISCONNECT_TIMEOUT, shake_hands};
use crate::hostkey::Policy;
use crate::known::KnownFiles;
use crate::log::{Log, Logger};
use crate::login_setup::{login_config, session_proof};
use crate::metrics::{Metered, Metrics};
use crate::options::{Options, SystemEnvironment};
use crate::pending::{self, Pending};
use crate::proxy::{ProxyCommand, carry};
use crate::resolve::{family, resolve};
use crate::resumable;
use crate::resume::{Resumed, Resuming};
use crate::service_quality::mark_packets;
use crate::session::{SessionChannel, SessionSetup};
use crate::ui::{LogLevel, Progress, UserInterface};
use crate::update_host_keys::HostKeyUpdate;

/// Longest chain of jump hosts; it ends a configuration that refers to itself.
const MAX_HOPS: usize = 8;

/// An authenticated connection.
pub struct Client {
    driver: Driver,
    /// The resolved host, for messages.
    host: String,
    peer: PeerName,
    /// Where the TCP connection goes; `None` behind a proxy.
    address: Option<SocketAddr>,
    untrusted_host: bool,
    update: Option<HostKeyUpdate>,
    /// Connection metrics (`Metrics`).
    metrics: Option<Metrics>,
    /// The login that is still to be done; `None` afterwards.
    pending: Option<Box<Pending>>,
    relayed: bool,
    /// `Resume`, where the server has offered it.
    resuming: Option<Resuming>,
    /// Kept so that the command ends with the connection.
    _proxy: Option<ProxyCommand>,
}

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
/// messages are sent with the login.
///
/// # Errors
/// As [`connect`].
pub fn connect_unauthenticated(options: &Options, ui: &mut dyn UserInterface) -> Result<Client, ClientError> {
    let mut log = options.log(ui);
    let ConnectedLink { mut link, proxy, update, pending } = connect_link(options, 0, None, &mut log)?;
    let config = &options.config;
    link.transport().keep_early();
    let mut driver = Driver::new(link, channels(config));
    if let Some(flight) = &pending.flight {
        driver.control().promise_first(flight.window);
    }
    driver.set_workers(Workers::configured(*config.disable_mt_aes));
    if let Some(interval) = config.server_alive_interval.duration() {
        driver.set_keepalive(interval, *config.server_alive_count_max);
    }
    Ok(Client {
        driver,
        host: config.host.clone(),
        peer: pending.peer.clone(),
        address: pending.address,
        untrusted_host: pending.untrusted,
        update,
        metrics: None,
        pending: Some(Box::new(pending)),
        relayed: false,
        resuming: None,
        _proxy: proxy,
    })
}

impl Client {
    /// A connection that another process has opened and authenticated (a mux master's).
    pub(crate) fn from_master(driver: Driver, options: &Options) -> Self {
        Self {
            driver,
            host: options.config.host.clone(),
            peer: PeerName::unknown(),
            address: None,
            untrusted_host: false,
            update: None,
            metrics: None,
            pending: None,
            relayed: true,
            resuming: None,
            _proxy: None,
        }
    }

    /// Logs in, unless that is done already or the connection belongs to a mux master.
    ///
    /// # Errors
    /// As [`connect`].
    pub fn log_in(&mut self, ui: &mut dyn UserInterface) -> Result<(), ClientError> {
        let Some(pending) = self.pending.take() else { return Ok(()) };
        self.driver.send_early_data();
        pending.log_in(self.driver.link(), &mut pending.options.log(ui))?;
        self.driver.logged_in();
        self.resuming = Resuming::new(&pending.options, self.driver.link(), connect_again);
        if self.resuming.is_some() {
            self.driver.control().survive_breaks(None);
            if pending.options.config.server_alive_interval.duration().is_none() {
                let (interval, count) = resumable::KEEPALIVE;
                self.driver.set_keepalive(interval, count);
            }
        }
        self.metrics = Metrics::start(&pending.options, self.driver.link());
        Ok(())
    }

    /// True if the connection belongs to a mux master, which then handles agent and X11 channels that the
    /// server opens.
    pub const fn is_relayed(&self) -> bool {
        self.relayed
    }

    /// The event loop, to open channels, add sources and run.
    pub const fn driver(&mut self) -> &mut Driver {
        &mut self.driver
    }

    /// Opens a session channel. `handler` gets its data; the control gets the program's fate as
    /// [`SessionNote`](crate::SessionNote)s.
    ///
    /// # Errors
    /// All channels are in use.
    pub fn open_session(
        &mut self,
        setup: SessionSetup,
        options: &ChannelOptions,
        handler: Box<dyn ChannelHandler>,
    ) -> Result<ChannelId, ClientError> {
        let handler = Box::new(SessionChannel::new(setup, handler));
        self.driver
            .control()
            .open("session", b"", options, handler)
            .map_err(|error| ClientError::Local(error.to_string()))
    }

    /// Promises the server that no further session will be opened on this connection, so that an attacker who
    /// takes this process over cannot run anything there (`no-more-sessions@openssh.com`). Returns false if
    /// the server does not support it, or if the connection belongs to a mux master, which may open sessions
    /// for other clients.
    pub fn forgo_sessions(&mut self) -> bool {
        let known = self.driver.link().transport_ref().peer().limits().knows_no_more_sessions;
        let asked = known && !self.relayed;
        if asked {
            self.driver.control().global_request("no-more-sessions@openssh.com", false, b"");
        }
        asked
    }

    /// Runs the loop until the control or a handler stops it, and returns the exit status that they gave.
    ///
    /// # Errors
    /// The connection ended: [`ClientError::Lost`] with OpenSSH's words.
    pub fn run(&mut self, control: &mut dyn Control) -> Result<i32, ClientError> {
        let mut metered;
        let control: &mut dyn Control = match &mut self.metrics {
            Some(metrics) => {
                metered = Metered { inner: control, metrics };
                &mut metered
            }
            None => control,
        };
        let result = match &mut self.resuming {
            Some(resuming) => self.driver.run(&mut Resumed { inner: control, resuming }),
            None => self.driver.run(control),
        };
        result.map_err(|error| self.ended(&error))
    }

    /// The error message for a connection that ended while channels were open.
    pub fn ended(&self, error: &DriverError) -> ClientError {
        let (host, at) = (&self.host, self.peer.text());
        let text = match error {
            DriverError::Link(LinkError::Closed { .. }) => {
                format!("Connection to {host} closed by remote host.")
            }
            DriverError::Link(LinkError::Io { source, .. }) => {
                if source.kind() == std::io::ErrorKind::BrokenPipe {
                    format!("Connection to {host} closed by remote host.")
                } else {
                    format!("Read from remote host {host}: {}", errno_text(source))
                }
            }
            DriverError::Link(error) => return link_failed(error, &self.peer),
            DriverError::KeepaliveTimeout => format!("Timeout, server {host} not responding."),
            DriverError::Disconnected { reason, description } => {
                return crate::failure::disconnected(*reason, description, &self.peer);
            }
            error => format!("Connection to {at}: {error}"),
        };
        ClientError::Lost(text)
    }

    /// The host as resolved by the configuration.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Evaluates `ForwardAgent` for the sessions of this connection.
    pub fn agent_forward(&mut self, options: &Options, logger: Logger) -> AgentForward {
        let link = self.driver.link();
        let registered = link.transport_ref().peer_extension(lh_agent::names::AGENT_FORWARD) == Some(b"0");
        let session = session_proof(link);
        AgentForward::new(options, session, registered, logger)
    }

    /// Where the TCP connection goes; `None` behind a proxy or jump host.
    pub const fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// Marks the packets of a connection that is logged in (`IPQoS`), by its purpose. Without effect behind a proxy or jump
    /// host.
    pub fn mark_packets(&mut self, options: &Options) {
        if self.address.is_some() {
            mark_packets(options, self.driver.link());
        }
    }

    /// True if the host key was accepted only because checking is off: send nothing that must not reach a man
    /// in the middle.
    pub const fn host_is_untrusted(&self) -> bool {
        self.untrusted_host
    }

    /// The handler for further host keys that the server announces (`UpdateHostKeys`); the caller passes it
    /// the control's events. `None` when this connection must not learn any.
    pub const fn take_host_key_update(&mut self) -> Option<HostKeyUpdate> {
        self.update.take()
    }

    /// Sends DISCONNECT and writes what is queued, for at most a short time.
    pub fn close(&mut self) {
        if let Some(metrics) = &mut self.metrics {
            metrics.finish(&mut self.driver);
        }
        self.driver.disconnect("disconnected by user", DISCONNECT_TIMEOUT);
    }
}

/// The configuration's settings for channel windows.
pub(crate) fn channels(settings: &ClientSettings) -> lh_connection::Config {
    let bulk_window = if *settings.hpn_disabled {
        WindowPolicy::configured(false, None)
    } else {
        WindowPolicy::configured(*settings.tcp_rcv_buf_poll, settings.hpn_buffer_size.bytes())
    };
    lh_connection::Config { bulk_window, ..lh_connection::Config::default() }
}

/// Reaches the host and checks its key, for a session that was logged in before.
fn connect_again(
    options: &Options,
    session: &PublicKey,
    log: &mut Log<'_>,
) -> Result<(Link, Option<ProxyCommand>), ClientError> {
    connect_link(options, 0, Some(session), log).map(|connected| (connected.link, connected.proxy))
}

/// A link to the host, whose key has been checked.
struct ConnectedLink {
    link: Link,
    proxy: Option<ProxyCommand>,
    update: Option<HostKeyUpdate>,
    pending: Pending,
}

/// A stream to the host, and the peer's address.
struct Reached {
    stream: Stream,
    proxy: Option<ProxyCommand>,
    address: Option<SocketAddr>,
    /// The port from `FallbackPort`, if the connection uses it.
    fallen_back: Option<u16>,
}

/// `session`: the host key of the session for which the link is made, if there is one.
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
    let host_key_types = host_key_types(&transport.algorithms);
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
    let deadline = config.connect_timeout.duration().map(|timeout| started + timeout);
    let warn_weak = *config.warn_weak_crypto == lh_config::enums::WarnWeakCrypto::Yes;
    let verified = shake_hands(&mut link, &policy, &mut known, &peer, deadline, warn_weak, log)?;
    let untrusted = verified.untrusted;
    let update = host_key_update(options, policy, verified.vouched_for, host_key_types);

    let flight = pending::first_flight(&mut link, options, untrusted, &peer)?;
    let pending =
        Pending { options: options.clone(), peer, address: reached.address, untrusted, flight, resumes };
    Ok(ConnectedLink { link, proxy: reached.proxy, update, pending })
}

/// `VersionAddendum`, expanded.
fn version_addendum(options: &Options) -> Result<Option<String>, ClientError> {
    let Some(text) = options.config.version_addendum.command() else { return Ok(None) };
    let expanded = options.config.tokens(&SystemEnvironment).expand(text);
    expanded.map(Some).map_err(|why| ClientError::Config(format!("VersionAddendum: {why}")))
}

/// The key types behind the offered signature algorithms.
fn host_key_types(algorithms: &lh_transport::Algorithms) -> Vec<String> {
    algorithms.host_key.iter().map(|name| algorithms::key_type_of(name).to_owned()).collect()
}

/// `UpdateHostKeys`, if the user's own known_hosts files contain the key in use.
fn host_key_update(
    options: &Options,
    policy: Policy,
    vouched_for: bool,
    types: Vec<String>,
) -> Option<HostKeyUpdate> {
    use lh_config::enums::YesNoAsk;
    let config = &options.config;
    let ask = match *config.update_host_keys {
        YesNoAsk::No => return None,
        YesNoAsk::Yes => false,
        // There is no way to ask the user.
        YesNoAsk::Ask if *config.batch_mode || *config.fork_after_authentication => return None,
        YesNoAsk::Ask => true,
    };
    (vouched_for && !policy.user_files.is_empty()).then(|| HostKeyUpdate::new(policy, ask, types))
}

/// Logs the parts of the configuration that have no effect.
fn log_notes(options: &Options, log: &mut Log<'_>) {
    for note in &options.config.notes {
        log.say(if note.loud { LogLevel::Info } else { LogLevel::Debug1 }, &note.text);
    }
}

/// Opens a stream to the host: through a command, through jump hosts, or directly.
fn reach(options: &Options, depth: usize, log: &mut Log<'_>) -> Result<Reached, ClientError> {
    let config = &options.config;
    if let Some(command) = config.proxy_command.command() {
        // OpenSSH ignores ProxyJump when both are set; the loader has dropped the later one.
        let command = config
            .tokens(&SystemEnvironment)
            .only("hknpr")
            .expand_command(command)
            .map_err(|why| ClientError::Config(format!("ProxyCommand: {why}")))?;
        if *config.proxy_use_fdpass {
            log.debug(|| format!("Executing proxy dialer command: {command}"));
            let socket =
                crate::fdpass::dial(&command).map_err(|error| ClientError::Local(errno_text(&error)))?;
            let address = lh_sys::socket::peer_address(&socket);
            let stream = Stream::socket(socket).map_err(|error| ClientError::Local(errno_text(&error)))?;
            return Ok(Reached { stream, proxy: None, address, fallen_back: None });
        }
        log.debug(|| format!("Executing proxy command: exec {command}"));
        let (proxy, stream) = ProxyCommand::start(&command)
            .map_err(|error| ClientError::Local(format!("proxy command: {}", errno_text(&error))))?;
        return Ok(Reached { stream, proxy: Some(proxy), address: None, fallen_back: None });
    }
    let hops = config
        .expanded_proxy_jump(&SystemEnvironment)
        .map_err(|why| ClientError::Config(format!("ProxyJump: {why}")))?;
    if let Some((last, before)) = hops.split_last() {
        return through_hop(options, last, before, depth, log);
    }
    dial(options, log)
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
    let ConnectedLink { mut link, proxy, pending, .. } = connect_link(&hop_options, depth + 1, None, log)?;
    pending.log_in(&mut link, log)?;
    let workers = Workers::configured(*hop_options.config.disable_mt_aes);
    let hop_channels = channels(&hop_options.config);
    let target = (options.config.host.as_str(), options.config.port());
    let stream = carry(link, proxy, hop_channels, workers, target)
        .map_err(|error| ClientError::Local(format!("jump host {}: {}", hop.host, errno_text(&error))))?;
    Ok(Reached { stream, proxy: None, address: None, fallen_back: None })
}

/// Connects by TCP; if the port cannot be reached, tries `FallbackPort` where that is enabled.
fn dial(options: &Options, log: &mut Log<'_>) -> Result<Reached, ClientError> {
    let config = &options.config;
    let (port, other) = (config.port(), config.fallback_port.value.0);
    // The defaults come from HPN-SSH, whose usual port is not 22.
    let asked_for = config.fallback.is_set() || config.fallback_port.is_set();
    match dial_port(options, port, log) {
        Err(ClientError::Unreachable(text)) if asked_for && *config.fallback && other != port => {
            log.info(&text);
            log.info(&format!("Falling back to port {other}."));
            let reached = dial_port(options, other, log)?;
            Ok(Reached { fallen_back: Some(other), ..reached })
        }
        result => result,
    }
}

fn dial_port(options: &Options, port: u16, log: &mut Log<'_>) -> Result<Reached, ClientError> {
    use lh_config::enums::TcpKeepAlive;
    let config = &options.config;
    let host = &config.host;
    let addresses = resolve(host, port, family(*config.address_family)).map_err(|words| {
        ClientError::Unreachable(format!("ssh: Could not resolve hostname {host}: {words}"))
    })?;
    let dial = Dial {
        bind: config.bind_address.value.clone(),
        interface: config.bind_interface.value.clone(),
        timeout: config.connect_timeout.duration(),
        attempts: *config.connection_attempts,
        keepalive: *config.tcp_keep_alive != TcpKeepAlive::No,
        head_start: config.happy_eyes.then(|| happy_delay(config)),
        multipath: *config.use_mptcp,
        tuning: Tuning {
            receive_buffer: config.tcp_rcv_buf.bytes(),
            congestion: config.tcp_congestion.value.clone(),
            pacing: config.tcp_pacing.bytes_per_second(),
        },
    };
    let mut shortfall = Shortfall::default();
    let (socket, address) = dial
        .connect(
            &addresses,
            &mut |address, error| {
                let ip = address.ip();
                if let Some(unusable) = error.and_then(UnusableSource::of) {
                    return log.error(&unusable.to_string());
                }
                log.debug(|| match error {
                    None => format!("Connecting to {host} [{ip}] port {port}."),
                    Some(error) => format!("connect to address {ip} port {port}: {}", errno_text(error)),
                });
            },
            &mut shortfall,
        )
        .map_err(|error| {
            // The reason has been logged already; OpenSSH has no other word here.
            let why = UnusableSource::of(&error).map_or_else(|| errno_text(&error), |_| "failure".to_owned());
            ClientError::Unreachable(format!("ssh: connect to host {host} port {port}: {why}"))
        })?;
    log.progress(Progress::Connected);
    log.debug(|| "Connection established.".to_owned());
    if let Some(error) = &shortfall.multipath {
        log.info(&format!("UseMPTCP: {}; going on with TCP.", errno_text(error)));
    }
    for refused in &shortfall.tuning {
        log.info(&refused.to_string());
    }
    let stream = Stream::socket(socket.into()).map_err(|error| ClientError::Local(errno_text(&error)))?;
    Ok(Reached { stream, proxy: None, address: Some(address), fallen_back: None })
}

/// `HappyDelay`. HPN-SSH uses its default for 0.
fn happy_delay(settings: &ClientSettings) -> Duration {
    let millis = *settings.happy_delay;
    Duration::from_millis(if millis == 0 { 250 } else { millis.into() })
}

/// The public keys that would be tried on the host, in order (`-Z`), as lines of `authorized_keys`. Contacts
/// only the agent.
///
/// # Errors
/// The configuration is wrong.
pub fn public_keys(options: &Options, ui: &mut dyn UserInterface) -> Result<Vec<String>, ClientError> {
    let mut log = Log::new(ui, options.log_level, true);
    let login = login_config(options, None, false)?;
    let identities = crate::identity::Identities::gather(login.identities, &mut log);
    let line = |identity: &crate::identity::Identity| {
        let line = identity.public.as_ref()?.to_openssh_line(&identity.name);
        Some(format!("{}\n", line.trim_end()))
    };
    Ok(identities.list.iter().filter_map(line).collect())
}
