//! Shows the contents of certificates (`-L`).

use std::fs;
use std::io::{self, Read as _};

use lh_crypto::{Certificate, CertificateKind, PublicKey};
use lh_sys::errno_text;

use crate::arguments::Arguments;
use crate::console::{Outcome, fatal, print, program, shown, silent, warn};
use crate::generate::key_file;
use crate::times;

/// Upper limit of a file, bytes.
const MAX_FILE: u64 = 64 << 20;
/// Indentation of details.
const INDENT: &str = "                ";

/// Prints every certificate of a file.
pub(crate) fn show(arguments: &Arguments) -> Outcome {
    let path = key_file(arguments)?;
    let stdin = path.as_os_str() == "-";
    let name = if stdin { "(stdin)".to_owned() } else { shown(&path) };
    let mut bytes = Vec::new();
    let read = if stdin {
        io::stdin().take(MAX_FILE).read_to_end(&mut bytes)
    } else {
        fs::File::open(&path).and_then(|file| file.take(MAX_FILE).read_to_end(&mut bytes))
    };
    read.map_err(|failed| fatal(format!("{}: {name}: {}", program(), errno_text(&failed))))?;
    let text = String::from_utf8_lossy(&bytes);
    let mut found = false;
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim_start_matches([' ', '\t']);
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let Some((key, _)) = PublicKey::from_openssh_line(line) else {
            warn(&format!("{name}:{number}: invalid key: invalid format"));
            continue;
        };
        let Some(certificate) = key.certificate() else {
            warn(&format!("{name}:{number} is not a certificate"));
            continue;
        };
        if certificate.verify(&[certificate.signature_algorithm()]).is_err() {
            warn(&format!("{name}:{number}: invalid key: incorrect signature"));
            continue;
        }
        found = true;
        let place = if !stdin && number == 1 { format!("{name}:\n") } else { format!("{name}:{number}:\n") };
        print(format!("{place}{}", describe(arguments, &key, certificate)))?;
    }
    if found { Ok(()) } else { Err(silent()) }
}

fn describe(arguments: &Arguments, key: &PublicKey, certificate: &Certificate) -> String {
    let kind = match certificate.kind() {
        CertificateKind::User => "user",
        CertificateKind::Host => "host",
    };
    let clean = |text: &str| lh_client::sanitise(text);
    let authority = certificate.authority();
    let mut out = String::new();
    for line in [
        format!("Type: {} {kind} certificate", clean(key.key_type())),
        format!("Public key: {} {}", key.display_type(), key.fingerprint(arguments.hash)),
        format!(
            "Signing CA: {} {} (using {})",
            authority.display_type(),
            authority.fingerprint(arguments.hash),
            clean(certificate.signature_algorithm())
        ),
        format!("Key ID: \"{}\"", clean(certificate.key_id())),
        format!("Serial: {}", certificate.serial()),
        format!("Valid: {}", times::show_validity(certificate.validity())),
    ] {
        out.push_str(&format!("        {line}\n"));
    }
    let principals = certificate.principals().iter().map(|name| clean(name)).collect();
    out.push_str(&list("Principals", principals));
    out.push_str(&list("Critical Options", options(certificate.raw_critical_options(), true)));
    out.push_str(&list("Extensions", options(certificate.raw_extensions(), false)));
    out
}

/// A heading and its lines, or `(none)`.
fn list(heading: &str, lines: Vec<String>) -> String {
    if lines.is_empty() {
        return format!("        {heading}: (none)\n");
    }
    // ssh-keygen prints the blank at the end of the line, too.
    let mut out = format!("        {heading}: \n");
    for line in lines {
        out.push_str(&format!("{INDENT}{line}\n"));
    }
    out
}

/// Known extensions, which have no value.
const EXTENSIONS: [&str; 6] = [
    "permit-X11-forwarding",
    "permit-agent-forwarding",
    "permit-port-forwarding",
    "permit-pty",
    "permit-user-rc",
    "no-touch-required",
];

/// Lines of a certificate's options: known ones as text, others in hexadecimal.
fn options(options: &[(String, Vec<u8>)], critical: bool) -> Vec<String> {
    let mut lines = Vec::new();
    for (name, raw) in options {
        let text = raw.get(4..).and_then(|text| std::str::from_utf8(text).ok());
        let shown = lh_client::sanitise(name);
        lines.push(match (name.as_str(), text) {
            ("force-command" | "source-address", Some(text)) if critical => {
                format!("{shown} {}", lh_client::sanitise(text))
            }
            ("verify-required", _) if critical => shown,
            (known, _) if !critical && EXTENSIONS.contains(&known) => shown,
            _ if raw.is_empty() => format!("{shown} UNKNOWN FLAG OPTION"),
            _ => {
                let hex: String = raw.iter().map(|byte| format!("{byte:02x}")).collect();
                format!("{shown} UNKNOWN OPTION: {hex} (len {})", raw.len())
            }
        });
    }
    lines
}
