//! `longhaul doctor HOST`: what limits the path to a host, on one page.

use std::ffi::OsString;
use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;

use lh_cli::copying::Connecting;
use lh_cli::flags::{LONGHAUL, Parsed};
use lh_client::{Destination, Options, local_account};
use lh_config::client::Request;
use lh_instrument::Target;
use lh_instrument::doctor::{RunSettings, examine, failure};

use crate::fault::Fault;
use crate::output::{print, print_line};

/// Exit status without a diagnosis.
const CANNOT: u8 = 255;

/// The host of the command line, with the flags about connections.
///
/// # Errors
/// The configuration or the word is wrong.
pub(crate) fn target(parsed: &Parsed, word: &str) -> Result<Target, Fault> {
    let (request, warnings) = request(parsed, word)?;
    warnings.iter().for_each(|warning| eprintln!("{warning}"));
    Ok(Target::new(request))
}

/// The address and port that the host of the command line means, by the configuration.
///
/// # Errors
/// The configuration or the word is wrong.
pub(crate) fn endpoint(parsed: &Parsed, word: &str) -> Result<(String, u16), Fault> {
    let (request, _) = request(parsed, word)?;
    let options = Options::load(&request)?;
    Ok((options.config.host.clone(), options.config.port()))
}

/// Returns the request of the command line, and warnings about it.
fn request(parsed: &Parsed, word: &str) -> Result<(Request, Vec<String>), Fault> {
    let account = local_account()?;
    let connecting = Connecting::new(parsed, 'B', &account);
    let place = Destination::parse(word).map_err(Fault::destination(word))?;
    let request = connecting.request(&place.host, place.port, place.user.as_deref(), account);
    Ok((request, connecting.warnings))
}

/// A line on a terminal about what is measured, which the next one replaces.
pub(crate) fn progress(quiet: bool) -> impl FnMut(&str) {
    let shows = !quiet && std::io::stderr().is_terminal();
    move |what: &str| {
        if shows {
            eprint!("\r\x1b[K{what}");
            let _ = std::io::stderr().flush();
        }
    }
}

/// Runs the command; returns the exit status.
pub(crate) fn run(parsed: &Parsed, operands: &[OsString]) -> u8 {
    let [word] = operands else {
        return LONGHAUL.usage_error("doctor: give one host").print();
    };
    let host = word.to_string_lossy();
    let target = match target(parsed, &host) {
        Ok(target) => target,
        Err(why) => return fail(parsed, &host, &why),
    };
    let wanted = RunSettings {
        local_directory: parsed.long_value("local-dir").map_or_else(|| PathBuf::from("."), PathBuf::from),
        remote_directory: parsed.long_text("remote-dir").unwrap_or_else(|| ".".to_owned()),
    };
    let mut tell = progress(parsed.has('q'));
    let examined = examine(&target, &wanted, &mut tell);
    tell("");
    match examined {
        Ok(diagnosis) => {
            let text =
                if parsed.has_long("json") { format!("{}\n", diagnosis.json()) } else { diagnosis.text() };
            print(&text).map_or_else(|fault| fault.report(CANNOT), |()| 0)
        }
        Err(why) => fail(parsed, &host, &why.into()),
    }
}

/// Says why there is no diagnosis, with `--json` as an object, too; returns the exit status.
fn fail(parsed: &Parsed, host: &str, why: &Fault) -> u8 {
    if parsed.has_long("json")
        && let Err(fault) = print_line(&failure(host, &why.to_string()).to_string())
    {
        fault.report(CANNOT);
    }
    why.report(CANNOT)
}
