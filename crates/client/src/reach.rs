//! Streams to a host as the configuration asks for them: through a command, or by TCP.

use std::net::SocketAddr;
use std::time::Duration;

use lh_config::client_table::ClientSettings;
use lh_driver::Stream;
use lh_sys::errno_text;
use lh_sys::tuning::Tuning;

use crate::carrier::{Carrier, ProxyCommand};
use crate::dial::{Dial, Shortfall, UnusableSource};
use crate::error::ClientError;
use crate::log::Log;
use crate::login::Needed;
use crate::options::{Options, SystemEnvironment};
use crate::resolve::{family, resolve};
use crate::ui::Progress;

/// TCP segment that every path takes, bytes: IPv6's least MTU of 1280 (RFC 8200 section 5) without the
/// headers of IPv6 and TCP.
const SHORT_SEGMENT: u16 = 1220;

/// A stream to the host, and the peer's address.
pub(crate) struct Reached {
    pub(crate) stream: Stream,
    /// What carries the connection, if that is not TCP.
    pub(crate) carrier: Option<Carrier>,
    pub(crate) address: Option<SocketAddr>,
    /// The port from `FallbackPort`, if the connection uses it.
    pub(crate) fallen_back: Option<u16>,
    /// Whether the logins at jump hosts have needed the user.
    pub(crate) needed: Needed,
}

/// Reaches the host through `ProxyCommand`.
pub(crate) fn through_command(
    options: &Options,
    command: &str,
    log: &mut Log<'_>,
) -> Result<Reached, ClientError> {
    let config = &options.config;
    let command = config
        .tokens(&SystemEnvironment)
        .only("hknpr")
        .expand_command(command)
        .map_err(|why| ClientError::Config(format!("ProxyCommand: {why}")))?;
    if *config.proxy_use_fdpass {
        log.debug(|| format!("Executing proxy dialer command: {command}"));
        let socket = crate::fdpass::dial(&command, options.commands.as_ref())
            .map_err(|error| ClientError::Local(errno_text(&error)))?;
        let address = lh_sys::socket::peer_address(&socket);
        let stream = Stream::socket(socket).map_err(|error| ClientError::Local(errno_text(&error)))?;
        return Ok(Reached { stream, carrier: None, address, fallen_back: None, needed: Needed::Nobody });
    }
    log.debug(|| format!("Executing proxy command: exec {command}"));
    let (command, stream) = ProxyCommand::start(&command, options.commands.as_ref()).map_err(|error| {
        let shell = crate::options::user_shell();
        ClientError::Local(format!("{}: {}", shell.display(), errno_text(&error)))
    })?;
    Ok(Reached {
        stream,
        carrier: Some(Carrier::Command(command)),
        address: None,
        fallen_back: None,
        needed: Needed::Nobody,
    })
}

/// Connects by TCP; if the port cannot be reached, tries `FallbackPort` where that is enabled.
pub(crate) fn directly(options: &Options, log: &mut Log<'_>) -> Result<Reached, ClientError> {
    let config = &options.config;
    let (port, other) = (config.port(), config.fallback_port.value.0);
    // The defaults come from HPN-SSH, whose usual port is not 22.
    let asked_for = config.fallback.is_set() || config.fallback_port.is_set();
    match dial_port(options, port, log) {
        Err(ClientError::Unreachable(text) | ClientError::Refused(text))
            if asked_for && *config.fallback && other != port =>
        {
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
            segment: options.short_segments.then_some(SHORT_SEGMENT),
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
            // The reason has already been logged; OpenSSH's message has only this word.
            let why = UnusableSource::of(&error).map_or_else(|| errno_text(&error), |_| "failure".to_owned());
            let text = format!("ssh: connect to host {host} port {port}: {why}");
            if error.kind() == std::io::ErrorKind::ConnectionRefused {
                ClientError::Refused(text)
            } else {
                ClientError::Unreachable(text)
            }
        })?;
    log.progress(Progress::Connected);
    log.debug(|| "Connection established.".to_owned());
    if let Some(error) = &shortfall.multipath {
        log.info(&format!("UseMPTCP: {}; continuing with TCP.", errno_text(error)));
    }
    for refused in &shortfall.tuning {
        log.info(&refused.to_string());
    }
    let stream = Stream::socket(socket.into()).map_err(|error| ClientError::Local(errno_text(&error)))?;
    Ok(Reached { stream, carrier: None, address: Some(address), fallen_back: None, needed: Needed::Nobody })
}

/// Returns the value of `HappyDelay`; 0 means the default, as in HPN-SSH.
fn happy_delay(settings: &ClientSettings) -> Duration {
    let millis = *settings.happy_delay;
    Duration::from_millis(if millis == 0 { 250 } else { millis.into() })
}
