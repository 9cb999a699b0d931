//! The master of a shared connection.

use std::path::Path;

use lh_client::mux::{Listen, Master};
use lh_client::{Client, ClientError, Forwards, LogLevel, Options, X11Forward};
use lh_config::enums::ControlMaster;
use lh_terminal::TerminalUi;

use crate::background::release_stdio;
use crate::mux_client::mux_through_new_master;
use crate::plan::Plan;

/// Listens on the control socket, where the configuration has one.
///
/// # Errors
/// The socket cannot be created, although this process is to be the master. Where it may be one (`auto`), the
/// user is told instead.
pub(crate) fn listen(
    options: &Options,
    client: &mut Client,
    forwards: &Forwards,
    agent: Option<&'static str>,
    x11: &X11Forward,
    ui: &mut TerminalUi,
) -> Result<Option<Master>, ClientError> {
    if client.is_relayed() {
        return Ok(None);
    }
    let config = &options.config;
    let permission = match *config.control_master {
        ControlMaster::No => return Ok(None),
        ControlMaster::Yes | ControlMaster::Auto => None,
        ControlMaster::Ask | ControlMaster::AutoAsk => Some(lh_terminal::permission()),
    };
    let Some(path) = config.control_path.as_deref() else { return Ok(None) };
    let logger = ui.logger(options.log_level).with_places(&config.log_verbose);
    let master =
        Master::new(forwards.clone(), logger, client.host(), permission, agent).with_x11(x11.clone());
    let text = match master.listen(Path::new(path), &mut client.driver().control()) {
        Ok(Listen::Yes) => return Ok(Some(master)),
        Ok(Listen::Taken(text)) => text,
        Err(error) => {
            let text = format!("unix_listener: cannot bind to path {path}: {}", lh_sys::errno_text(&error));
            if matches!(*config.control_master, ControlMaster::Yes | ControlMaster::Ask) {
                return Err(ClientError::Config(text));
            }
            text
        }
    };
    if options.log_level >= LogLevel::Error {
        ui.say(&text);
    }
    Ok(None)
}

/// Runs the process that the user waits for, after the split: it continues as a mux client of the other
/// process, the master.
pub(crate) fn become_mux_client(options: &Options, plan: &Plan) -> ! {
    // Only the master may hold these descriptors: if it dies, the control socket must not seem alive.
    if let Err(error) = lh_sys::fd::close_all() {
        eprintln!("cannot close descriptors: {error}");
        std::process::exit(255);
    }
    let mut ui = TerminalUi::default();
    if let Some(path) = &plan.log_file {
        let _ = ui.log_to(path);
    }
    std::process::exit(mux_through_new_master(options, plan, &mut ui).into());
}

/// Detaches the master: a new session, without a terminal.
pub(crate) fn detach(options: &Options) -> std::io::Result<()> {
    rustix::process::setsid()?;
    release_stdio(options)
}
