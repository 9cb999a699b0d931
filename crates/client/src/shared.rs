//! Connections of another process: as a client of a mux master in proxy mode, this process has its own
//! channels there and needs no login.

use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Instant;

use lh_config::enums::ControlMaster;
use lh_crypto::SystemRandom;
use lh_driver::{ConnectionConfig, Driver, Link, Stream};
use lh_transport::Transport;

use crate::client::{Client, channels};
use crate::connect::connect_unauthenticated;
use crate::error::ClientError;
use crate::mux::{ConnectError, MuxClient, MuxError};
use crate::options::Options;
use crate::ui::UserInterface;

/// Limit on the growth of all windows together, bytes. OpenSSH's master buffers what a client does not read,
/// and exits above 128 MiB.
const GROWTH: u64 = 60 << 20;

impl Client {
    /// Returns a client of the master at the other end of this socket, from [`MuxClient::into_proxy`].
    ///
    /// # Errors
    /// The socket cannot be set up.
    pub fn relayed(socket: UnixStream, options: &Options) -> std::io::Result<Self> {
        let transport = Transport::relayed(Box::new(SystemRandom), Instant::now());
        let link = Link::new(transport, Stream::socket(socket.into())?);
        let config = ConnectionConfig { growth_budget: GROWTH, ..channels(&options.config.settings) };
        Ok(Self::from_master(Driver::new(link, config), options))
    }
}

/// Returns a connection for one task: through the master at `ControlPath` if there is one (and
/// `ControlMaster` does not make this process one), else a new one.
///
/// # Errors
/// See [`connect`](crate::connect()).
pub fn connect_or_share(options: &Options, ui: &mut dyn UserInterface) -> Result<Client, ClientError> {
    let mut client = connect_or_share_unauthenticated(options, ui)?;
    client.log_in(ui)?;
    Ok(client)
}

/// Like [`connect_or_share`], but a new connection is not logged in yet: channels may be opened before
/// [`Client::log_in`].
///
/// # Errors
/// See [`connect`](crate::connect()).
pub fn connect_or_share_unauthenticated(
    options: &Options,
    ui: &mut dyn UserInterface,
) -> Result<Client, ClientError> {
    match share(options, ui)? {
        Some(client) => Ok(client),
        None => connect_unauthenticated(options, ui),
    }
}

/// Returns the client of a running master; `None` where a new connection is needed.
///
/// # Errors
/// The configured path is too long for a socket.
fn share(options: &Options, ui: &mut dyn UserInterface) -> Result<Option<Client>, ClientError> {
    let config = &options.config;
    let Some(path) = config.control_path.as_deref() else { return Ok(None) };
    if matches!(*config.control_master, ControlMaster::Yes | ControlMaster::Ask) {
        return Ok(None);
    }
    let mut log = options.log(ui);
    let master = match MuxClient::connect(Path::new(path)) {
        Ok(master) => master,
        Err(ConnectError::Missing(_)) => {
            log.debug(|| format!("Control socket \"{path}\" does not exist"));
            return Ok(None);
        }
        Err(ConnectError::Stale(_)) if *config.control_master != ControlMaster::No => {
            log.debug(|| format!("Stale control socket {path}"));
            return Ok(None);
        }
        Err(error @ ConnectError::TooLong(_)) => return Err(ClientError::Local(error.to_string())),
        Err(error) => {
            log.error(&format!("Control socket connect({path}): {error}"));
            return Ok(None);
        }
    };
    Ok(match become_client(master, options) {
        Ok(client) => {
            log.debug(|| format!("sharing the connection of the master at {path}"));
            Some(client)
        }
        Err(error) => {
            log.error(&format!("muxclient: {error}"));
            None
        }
    })
}

fn become_client(mut master: MuxClient, options: &Options) -> Result<Client, MuxError> {
    master.greet()?;
    Ok(Client::relayed(master.into_proxy()?, options)?)
}
