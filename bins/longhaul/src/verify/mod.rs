//! `longhaul verify`: checks a tree against the manifests that `lhscp --manifest-out` has left, one or those
//! of all shares.

mod known;
mod local;
mod manifests;
mod remote;
mod report;

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;

use lh_cli::copying::Connecting;
use lh_cli::flags::{LONGHAUL, Parsed};
use lh_client::local_account;
use lh_ssh_transfer::place::{Host, Place};
use lh_ssh_transfer::{Connection, take_leave};
use lh_terminal::TerminalUi;
use lh_transfer::display_name;

use crate::fault::Fault;
use crate::sftp::{Sftp, over_connection};
use known::Known;
use manifests::Manifests;
use report::{CANNOT, Findings};

/// Checks what the command line names; returns the exit status.
pub(crate) fn run(parsed: &Parsed, operands: &[OsString]) -> u8 {
    let tree = parsed.long_value("in");
    let (names, word) = match (operands, tree) {
        ([], _) => return LONGHAUL.usage_error("verify: no manifest").print(),
        (names, Some(tree)) => (names, Some(tree.to_owned())),
        ([_], None) => (operands, None),
        ([_, word], None) => (&operands[..1], Some(word.clone())),
        _ => {
            let text =
                "verify: more than a manifest and a destination; --in DESTINATION takes several manifests";
            return LONGHAUL.usage_error(text).print();
        }
    };
    let manifests = match Manifests::open(names, tree.is_some()) {
        Ok(manifests) => manifests,
        Err(fault) => return fault.report(CANNOT),
    };
    let word = word.unwrap_or_else(|| OsString::from_vec(manifests.destination()));
    let place = match Place::parse(&word) {
        Ok(place) => place,
        Err(why) => return Fault::Refused(why.to_string()).report(CANNOT),
    };
    let mut findings = Findings::new(parsed.has_long("json"));
    findings.start(&manifests.names(), &display_name(word.as_encoded_bytes()));
    manifests.report_missing(&mut findings);
    let mut known = parsed.has_long("extra").then(Known::default);
    let done = match place {
        Place::Local(root) => check_local(Path::new(&root), &manifests, known.as_mut(), &mut findings),
        Place::Remote { host, path } => {
            check_remote(parsed, &host, &path, &manifests, known.as_mut(), &mut findings)
        }
    };
    let failed = done.err().map(|fault| {
        fault.report(CANNOT);
        fault.to_string()
    });
    let status = findings.finish(failed.as_deref());
    // A report that could not be written is a failure of the program.
    findings.unwritten().map_or(status, |fault| fault.report(CANNOT))
}

fn check_local(
    root: &Path,
    manifests: &Manifests,
    mut known: Option<&mut Known>,
    findings: &mut Findings,
) -> Result<(), Fault> {
    match root.metadata() {
        Ok(meta) if meta.is_dir() => {}
        Ok(_) => return Err(Fault::file(root)(rustix::io::Errno::NOTDIR.into())),
        Err(error) => return Err(Fault::file(root)(error)),
    }
    manifests.each(findings, |manifest, findings| {
        while let Some(entry) = manifest.next()? {
            if let Some(known) = &mut known {
                known.add(&entry.path);
            }
            local::check(root, &entry, manifest.algorithm(), findings);
        }
        Ok(())
    })?;
    if let Some(known) = known {
        local::find_extra(root, known, findings);
    }
    Ok(())
}

fn check_remote(
    parsed: &Parsed,
    host: &Host,
    path: &[u8],
    manifests: &Manifests,
    known: Option<&mut Known>,
    findings: &mut Findings,
) -> Result<(), Fault> {
    let account = local_account()?;
    let connecting = Connecting::new(parsed, 'B', &account);
    connecting.warnings.iter().for_each(|warning| eprintln!("{warning}"));
    let request = connecting.request(&host.name, host.port, host.user.as_deref(), account);
    let mut ui = TerminalUi::default();
    take_leave(|_| ());
    let connection = Connection::log_in(&request, &mut ui).ok_or(Fault::Closed)?;
    over_connection(connection, |stream| check_over(stream, path, manifests, known, findings))
}

fn check_over(
    stream: UnixStream,
    path: &[u8],
    manifests: &Manifests,
    mut known: Option<&mut Known>,
    findings: &mut Findings,
) -> Result<(), Fault> {
    let mut sftp = Sftp::start(stream)?;
    let root = remote::root(&mut sftp, path)?;
    manifests.each(findings, |manifest, findings| {
        let algorithm = manifest.algorithm();
        remote::Check::new(&mut sftp, &root, algorithm, findings).run(manifest, known.as_deref_mut())
    })?;
    match known {
        Some(known) => remote::find_extra(&mut sftp, &root, known, findings),
        None => Ok(()),
    }
}
