//! What a certificate says (`-L`).

use std::fs;
use std::io::{self, Read as _};

use lh_cli::flags::KEYGEN;
use lh_crypto::{Certificate, CertificateKind, PublicKey};

use crate::arguments::Arguments;
use crate::generate::key_file;
use crate::talk::{Outcome, fatal, print, reason, shown, silent, warn};

/// Largest file that is read, in bytes.
const MAX_FILE: u64 = 64 << 20;
/// How far details are moved in.
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
    read.map_err(|failed| fatal(format!("{}: {name}: {}", KEYGEN.called(), reason(&failed))))?;
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
        format!("Valid: {}", validity(certificate.validity())),
    ] {
        out.push_str(&format!("        {line}\n"));
    }
    let principals = certificate.principals().iter().map(|name| clean(name)).collect();
    out.push_str(&list("Principals", principals));
    out.push_str(&list("Critical Options", options(certificate.critical_options())));
    out.push_str(&list("Extensions", options(certificate.extensions())));
    out
}

/// A heading and its lines, or that there are none.
fn list(heading: &str, lines: Vec<String>) -> String {
    if lines.is_empty() {
        return format!("        {heading}: (none)\n");
    }
    // The blank at the end of the line is ssh-keygen's.
    let mut out = format!("        {heading}: \n");
    for line in lines {
        out.push_str(&format!("{INDENT}{line}\n"));
    }
    out
}

fn options(options: &[(String, Vec<u8>)]) -> Vec<String> {
    let mut lines = Vec::new();
    for (name, value) in options {
        let name = lh_client::sanitise(name);
        lines.push(match (name.as_str(), std::str::from_utf8(value)) {
            ("force-command" | "source-address", Ok(text)) => format!("{name} {}", lh_client::sanitise(text)),
            _ if value.is_empty() => name,
            _ => {
                // As it stands in the certificate, with the length of the string inside.
                let length = u32::try_from(value.len()).unwrap_or_default().to_be_bytes();
                let hex: String = length.iter().chain(value).map(|byte| format!("{byte:02x}")).collect();
                format!("{name} UNKNOWN OPTION: {hex} (len {})", value.len() + length.len())
            }
        });
    }
    lines
}

fn validity((after, before): (u64, u64)) -> String {
    match (after, before) {
        (0, u64::MAX) => "forever".to_owned(),
        (0, before) => format!("before {}", local_time(before)),
        (after, u64::MAX) => format!("after {}", local_time(after)),
        (after, before) => format!("from {} to {}", local_time(after), local_time(before)),
    }
}

/// `2030-01-31T12:00:00` in local time.
fn local_time(time: u64) -> String {
    // Beyond this, years need more than four digits.
    const LAST: u64 = 253_402_300_799 - 86_400;
    let Ok(time) = i64::try_from(time.min(LAST)) else { return String::new() };
    let local = time + i64::from(lh_sys::time::utc_offset(time));
    let (days, seconds) = (local.div_euclid(86_400), local.rem_euclid(86_400));
    let (year, month, day) = civil(days);
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}",
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60
    )
}

/// Year, month and day of a day counted from 1970-01-01. Years are counted from March here, so that the leap day is the last.
fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    (year, month, day_of_year - (153 * shifted + 2) / 5 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_dates() {
        assert_eq!(civil(0), (1970, 1, 1));
        assert_eq!(civil(11_016), (2000, 2, 29));
        assert_eq!(civil(11_017), (2000, 3, 1));
        assert_eq!(civil(21_914), (2029, 12, 31));
        assert_eq!(civil(-1), (1969, 12, 31));
    }
}
