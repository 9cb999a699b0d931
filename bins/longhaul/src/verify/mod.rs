//! `longhaul verify MANIFEST [HOST:DIR | DIR]`: checks a tree against the manifest that `lhscp --manifest-out` has left.

mod known;
mod local;
mod remote;
mod report;

use std::ffi::OsString;
use std::fs::File;
use std::io::BufReader;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;

use lh_cli::copying::Connecting;
use lh_cli::flags::{LONGHAUL, Parsed};
use lh_client::local_account;
use lh_ssh_transfer::Connection;
use lh_ssh_transfer::place::{Host, Place};
use lh_sys::errno_text;
use lh_terminal::TerminalUi;
use lh_transfer::display_name;
use lh_transfer::manifest_file::Reader;

use crate::sftp::Sftp;
use crate::words::say;
use known::Known;
use report::{CANNOT, Findings};

/// Checks what the command line names; returns the exit status.
pub(crate) fn run(parsed: &Parsed, operands: &[OsString]) -> u8 {
    let (manifest, word) = match operands {
        [manifest] => (manifest, None),
        [manifest, word] => (manifest, Some(word)),
        [] => return LONGHAUL.usage_error("verify: no manifest").print(),
        _ => return LONGHAUL.usage_error("verify: more than a manifest and a destination").print(),
    };
    let name = Path::new(manifest).display().to_string();
    let reader = File::open(manifest)
        .map_err(|error| errno_text(&error))
        .and_then(|file| Reader::new(BufReader::new(file)));
    let mut reader = match reader {
        Ok(reader) => reader,
        Err(why) => return cannot(&format!("{name}: {why}")),
    };
    let word = word.cloned().unwrap_or_else(|| OsString::from_vec(reader.header().destination.clone()));
    let place = match Place::parse(&word) {
        Ok(place) => place,
        Err(why) => return cannot(&why),
    };
    let mut findings = Findings::new(parsed.has_long("json"));
    findings.start(&name, &display_name(word.as_encoded_bytes()));
    let mut known = parsed.has_long("extra").then(Known::default);
    let done = match place {
        Place::Local(root) => check_local(Path::new(&root), &mut reader, known.as_mut(), &mut findings),
        Place::Remote { host, path } => {
            check_remote(parsed, &host, &path, &mut reader, known.as_mut(), &mut findings)
        }
    };
    match done {
        Ok(()) => findings.finish(None),
        Err(why) => {
            say(&why);
            findings.finish(Some(&why))
        }
    }
}

type Manifest = Reader<BufReader<File>>;

fn check_local(
    root: &Path,
    manifest: &mut Manifest,
    mut known: Option<&mut Known>,
    findings: &mut Findings,
) -> Result<(), String> {
    let shown = root.display();
    match root.metadata() {
        Ok(meta) if meta.is_dir() => {}
        Ok(_) => return Err(format!("{shown}: Not a directory")),
        Err(error) => return Err(format!("{shown}: {}", errno_text(&error))),
    }
    while let Some(entry) = manifest.next_entry()? {
        if let Some(known) = &mut known {
            known.add(&entry.path);
        }
        local::check(root, &entry, manifest.header().algorithm, findings);
    }
    if let Some(known) = known {
        local::find_extra(root, known, findings);
    }
    Ok(())
}

fn check_remote(
    parsed: &Parsed,
    host: &Host,
    path: &[u8],
    manifest: &mut Manifest,
    known: Option<&mut Known>,
    findings: &mut Findings,
) -> Result<(), String> {
    let account = local_account()?;
    let connecting = Connecting::new(parsed, 'B', &account);
    connecting.warnings.iter().for_each(|warning| eprintln!("{warning}"));
    let request = connecting.request(&host.name, host.port, host.user.as_deref(), account);
    let mut ui = TerminalUi::default();
    let closed = || "Connection closed".to_owned();
    let mut connection = Connection::log_in(&request, &mut ui).ok_or_else(closed)?;
    let work = |stream| check_over(stream, path, manifest, known, findings);
    let (done, ended) = connection.run_sftp(work).map_err(|error| errno_text(&error))?;
    connection.close();
    match (done, ended) {
        (Some(Ok(())), _) => Ok(()),
        // Why the connection ended says more than that it did.
        (_, Err(why)) => Err(why),
        (Some(Err(why)), Ok(())) => Err(why),
        (None, Ok(())) => Err(closed()),
    }
}

fn check_over(
    stream: UnixStream,
    path: &[u8],
    manifest: &mut Manifest,
    mut known: Option<&mut Known>,
    findings: &mut Findings,
) -> Result<(), String> {
    let mut sftp = Sftp::start(stream)?;
    let root = remote::root(&mut sftp, path)?;
    let algorithm = manifest.header().algorithm;
    remote::Check::new(&mut sftp, &root, algorithm, findings).run(manifest, known.as_deref_mut())?;
    match known {
        Some(known) => remote::find_extra(&mut sftp, &root, known, findings),
        None => Ok(()),
    }
}

fn cannot(why: &str) -> u8 {
    say(why);
    CANNOT
}
