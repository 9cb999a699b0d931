//! Creates certificates (`-s`): an authority's key certifies another key.

use std::path::{Path, PathBuf};

use lh_crypto::{CertificateFields, CertificateKind, PublicKey, SystemRandom};
use lh_sys::errno_text;

use crate::arguments::Arguments;
use crate::console::{Outcome, error, fatal, shown, warn};
use crate::files;
use crate::files::load_public;
use crate::options::Options;
use crate::signer::{NoAgent, Signer};
use crate::times::{parse_validity, show_validity};
use crate::token;

/// Upper limit of names in a certificate; OpenSSH's limit.
const MAX_PRINCIPALS: usize = 256;

/// Certifies the public keys in the named files.
pub(crate) fn sign(arguments: &Arguments, authority: &Path) -> Outcome {
    let values = &arguments.values;
    let key_id = values.identity.clone().ok_or_else(|| fatal("Must specify key id (-I) when certifying"))?;
    let kind =
        if arguments.switches.host_certificate { CertificateKind::Host } else { CertificateKind::User };
    let mut options = Options::new(kind == CertificateKind::Host);
    for option in &values.options {
        options.add(&option.to_string_lossy())?;
    }
    let validity = values.validity.as_deref().map_or(Ok((0, u64::MAX)), parse_validity)?;
    let mut serial = Serial::parse(values.serial.as_deref())?;
    let mut signer = open_authority(arguments, authority)?;
    let algorithm = algorithm(signer.public(), values.key_type.as_deref())?;
    let principals = principals(values.names.as_deref())?;
    for file in &arguments.operands {
        let path = PathBuf::from(file);
        let fields = CertificateFields {
            serial: serial.current,
            kind,
            key_id: key_id.clone(),
            principals: principals.clone(),
            valid_after: validity.0,
            valid_before: validity.1,
            critical_options: options.critical(),
            extensions: options.extensions(),
        };
        let out = certify(&mut signer, &algorithm, &fields, &path)?;
        if !arguments.quiet {
            let names =
                if principals.is_empty() { String::new() } else { format!(" for {}", principals.join(",")) };
            warn(&format!(
                "Signed {} key {}: id \"{}\" serial {}{} valid {}",
                if kind == CertificateKind::Host { "host" } else { "user" },
                shown(&out),
                lh_client::sanitise(&key_id),
                fields.serial,
                lh_client::sanitise(&names),
                show_validity(validity)
            ));
        }
        serial.next();
    }
    Ok(())
}

/// Certifies one key; returns the name of the new file.
fn certify(
    signer: &mut Signer,
    algorithm: &str,
    fields: &CertificateFields,
    path: &Path,
) -> Outcome<PathBuf> {
    let (key, comment) = load_public(path)
        .ok_or_else(|| fatal(format!("load pubkey \"{}\": No such file or directory", shown(path))))?;
    if key.certificate().is_some() || key.signature_algorithms().is_empty() {
        let what = key.display_type();
        return Err(fatal(format!(
            "do_ca_sign: key \"{}\" type {} cannot be certified",
            shown(path),
            lh_client::sanitise(&what)
        )));
    }
    let failed =
        |why: &dyn std::error::Error| error(format!("Couldn't certify key {} via CA: {why}", shown(path)));
    let signed = fields.to_be_signed(&key, signer.public(), &mut SystemRandom).map_err(|why| failed(&why))?;
    let signature = signer.sign(algorithm, &signed).map_err(|why| failed(&why))?;
    let certificate = CertificateFields::finish(signed, &signature).map_err(|why| failed(&why))?;
    let out = certificate_name(path);
    let line = format!("{}\n", certificate.to_openssh_line(&comment));
    files::write_public(&out, line.as_bytes()).map_err(|why| {
        fatal(format!("Unable to save public key to {}: {}", shown(&out), errno_text(&why)))
    })?;
    Ok(out)
}

/// `key-cert.pub`, both for `key` and for `key.pub`.
fn certificate_name(path: &Path) -> PathBuf {
    let mut name = match path.extension() {
        Some(extension) if extension == "pub" => path.with_extension("").into_os_string(),
        _ => path.as_os_str().to_owned(),
    };
    name.push("-cert.pub");
    name.into()
}

/// Opens the authority's key: from a file, or from a token or an agent that holds the private key of a public
/// key file.
fn open_authority(arguments: &Arguments, path: &Path) -> Outcome<Signer> {
    if let Some(library) = &arguments.values.token_library {
        let (provider, key) = token::find(arguments, library, path)?;
        return Ok(Signer::Token(provider, key));
    }
    if !arguments.switches.in_agent {
        return Signer::from_file(arguments, path);
    }
    let (key, _) = load_public(path).ok_or_else(|| {
        fatal(format!("Cannot load CA public key {}: No such file or directory", shown(path)))
    })?;
    Signer::from_agent(&key).map_err(|why| match why {
        NoAgent::NotPresent => fatal("Cannot use public key for CA signature: agent not present"),
        NoAgent::NotHeld => fatal(format!("CA key {} not found in agent", shown(path))),
        NoAgent::Failed(why) => fatal(format!("Retrieve agent key list: {why}")),
    })
}

/// Signature algorithm of the authority: that of `-t`, else the best one of its key.
fn algorithm(authority: &PublicKey, wanted: Option<&str>) -> Outcome<String> {
    let best = authority.signature_algorithms().first().copied().unwrap_or_default();
    let Some(wanted) = wanted else { return Ok(best.to_owned()) };
    if authority.signature_algorithms().contains(&wanted) {
        return Ok(wanted.to_owned());
    }
    let short = authority.display_type().to_ascii_lowercase();
    if short == wanted.to_ascii_lowercase() {
        return Ok(best.to_owned());
    }
    Err(fatal(format!(
        "CA key type {} doesn't match specified {}",
        authority.key_type(),
        lh_client::sanitise(wanted)
    )))
}

fn principals(list: Option<&str>) -> Outcome<Vec<String>> {
    let Some(list) = list else { return Ok(Vec::new()) };
    let names: Vec<String> = list.split(',').map(str::to_owned).collect();
    if names.iter().any(String::is_empty) {
        return Err(fatal("Empty principal name"));
    }
    if names.len() > MAX_PRINCIPALS {
        return Err(fatal("Too many certificate principals specified"));
    }
    Ok(names)
}

/// Serial number (`-z`), and whether it increases with each key.
struct Serial {
    current: u64,
    counts: bool,
}

impl Serial {
    fn parse(text: Option<&str>) -> Outcome<Self> {
        let Some(text) = text else { return Ok(Self { current: 0, counts: false }) };
        let (number, counts) = text.strip_prefix('+').map_or((text, false), |rest| (rest, true));
        let current = parse_decimal(number)
            .ok_or_else(|| fatal(format!("Invalid serial number \"{}\"", lh_client::sanitise(text))))?;
        Ok(Self { current, counts })
    }

    fn next(&mut self) {
        if self.counts {
            self.current = self.current.wrapping_add(1);
        }
    }
}

/// Parses a decimal number.
pub(crate) fn parse_decimal(text: &str) -> Option<u64> {
    text.parse().ok().filter(|_| !text.starts_with('+'))
}

/// Parses a number: decimal, hexadecimal after `0x`, or octal after `0`.
pub(crate) fn parse_number(text: &str) -> Option<u64> {
    let lower = text.to_ascii_lowercase();
    let (digits, radix) = match lower.strip_prefix("0x") {
        Some(digits) => (digits, 16),
        None if lower.len() > 1 && lower.starts_with('0') => (&lower[1..], 8),
        None => (lower.as_str(), 10),
    };
    if digits.starts_with('+') { None } else { u64::from_str_radix(digits, radix).ok() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificate_file_is_beside_its_key() {
        assert_eq!(certificate_name(Path::new("a/key.pub")), Path::new("a/key-cert.pub"));
        assert_eq!(certificate_name(Path::new("a/key")), Path::new("a/key-cert.pub"));
        assert_eq!(certificate_name(Path::new("a.b/key.x")), Path::new("a.b/key.x-cert.pub"));
    }

    #[test]
    fn numbers_are_parsed_in_three_bases() {
        let numbers = ["0", "10", "0x10", "010", "18446744073709551615"].map(parse_number);
        assert_eq!(numbers, [Some(0), Some(10), Some(16), Some(8), Some(u64::MAX)]);
        for text in ["", "x", "-1", "0x", "18446744073709551616", "0x+1", "1 "] {
            assert_eq!(parse_number(text), None, "{text}");
        }
    }
}
