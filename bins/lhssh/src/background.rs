//! Going to the background (`-f`, the master that `ControlPersist` leaves): who holds the standard
//! descriptors then.

use std::io;
use std::path::Path;

use lh_client::{LogLevel, Logger, Options};
use lh_terminal::TerminalUi;

use crate::plan::Plan;

/// Continues in the background. A script that waits for the end of this program's output, as in
/// `x=$(ssh -fN …)`, must not wait for a process that has nothing to write: without a session, the standard
/// descriptors are given up. A session keeps them for its output, and messages are dropped. With `-v`,
/// messages go on.
///
/// # Errors
/// No process can be created.
pub(crate) fn enter(options: &Options, plan: &Plan, logger: &Logger, ui: &mut TerminalUi) -> io::Result<()> {
    lh_sys::background::continue_in_background()?;
    if !plan.has_session() {
        return release_stdio(options);
    }
    if logger.is_on_stderr() && options.log_level < LogLevel::Debug1 {
        logger.set_level(LogLevel::Quiet);
        ui.log_to(Path::new("/dev/null"))?;
    }
    Ok(())
}

/// Puts `/dev/null` in the place of the standard descriptors. Standard error stays for a user who debugs.
///
/// # Errors
/// `/dev/null` cannot be opened.
pub(crate) fn release_stdio(options: &Options) -> io::Result<()> {
    if options.log_level < LogLevel::Debug1 {
        return lh_sys::fd::null_stdio();
    }
    let null = lh_sys::fd::null()?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    Ok(())
}
