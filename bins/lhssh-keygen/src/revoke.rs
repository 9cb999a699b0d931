//! Key revocation lists: create (`-k`), update (`-u`), query (`-Q`).

use std::fs;
use std::io::{self, Read as _};
use std::path::Path;

use lh_crypto::{FingerprintHash, Hash, Krl, PublicKey};
use lh_sys::errno_text;

use crate::arguments::Arguments;
use crate::certify::{parse_decimal, parse_number};
use crate::console::{Outcome, fatal, print, shown, silent};
use crate::files;
use crate::files::load_public;
use crate::times;

/// Upper limit of a list or specification, bytes; OpenSSH's buffer limit.
const MAX_FILE: u64 = 128 << 20;

/// The authority whose certificates a specification revokes by serial number and key id.
enum Authority {
    Unknown,
    Any,
    One(Box<PublicKey>),
}

impl Authority {
    fn key(&self) -> Option<&PublicKey> {
        match self {
            Self::One(key) => Some(key),
            _ => None,
        }
    }
}

/// Creates a list, or updates one.
pub(crate) fn make(arguments: &Arguments) -> Outcome {
    let path = arguments.file.as_ref().ok_or_else(|| fatal("KRL generation requires an output file"))?;
    let version = match &arguments.values.serial {
        None => 0,
        Some(text) => parse_decimal(text)
            .ok_or_else(|| fatal(format!("Invalid serial number \"{}\"", lh_client::sanitise(text))))?,
    };
    let mut list = Krl::new();
    if arguments.switches.update {
        if fs::metadata(path).is_err() {
            return Err(fatal(format!("KRL \"{}\" does not exist", shown(path))));
        }
        list = load(path)?;
    }
    let authority = match &arguments.values.signer {
        None => Authority::Unknown,
        Some(name) if name.as_os_str().eq_ignore_ascii_case("none") => Authority::Any,
        Some(name) => {
            let missing =
                || fatal(format!("Cannot load CA public key {}: No such file or directory", shown(name)));
            Authority::One(Box::new(load_public(name).ok_or_else(missing)?.0))
        }
    };
    if version != 0 {
        list.version = version;
    }
    if let Some(comment) = &arguments.comment {
        list.comment.clone_from(comment);
    }
    for file in &arguments.operands {
        let file = Path::new(file);
        let name = if file.as_os_str() == "-" { "(standard input)".to_owned() } else { shown(file) };
        let bytes =
            read(file).map_err(|why| fatal(format!("fopen {}: {}", shown(file), errno_text(&why))))?;
        if !arguments.quiet {
            print(format!("Revoking from {name}\n"))?;
        }
        for (number, line) in (1..).zip(String::from_utf8_lossy(&bytes).lines()) {
            add_line(&mut list, &authority, line, &format!("{name}:{number}"))?;
        }
    }
    list.generated = times::now();
    files::write_public(path, &list.to_bytes())
        .map_err(|why| fatal(format!("write {}: {}", shown(path), errno_text(&why))))
}

/// Adds one line of a specification. `position` identifies the line in messages.
fn add_line(list: &mut Krl, authority: &Authority, line: &str, position: &str) -> Outcome {
    let line = line.split('#').next().unwrap_or_default().trim_matches([' ', '\t', '\r']);
    if line.is_empty() {
        return Ok(());
    }
    let lower = line.to_ascii_lowercase();
    let value = |keyword: &str| {
        lower.starts_with(keyword).then(|| line[keyword.len()..].trim_start_matches([' ', '\t']))
    };
    if let Some(text) = value("serial:") {
        if matches!(authority, Authority::Unknown) {
            return Err(fatal("revoking certificates by serial number requires specification of a CA key"));
        }
        let (first, last) = serials(text, position)?;
        return list
            .revoke_serials(authority.key(), first, last)
            .map_err(|_| fatal("update_krl_from_file: revoke serial failed"));
    }
    if let Some(key_id) = value("id:") {
        if matches!(authority, Authority::Unknown) {
            return Err(fatal("revoking certificates by key ID requires specification of a CA key"));
        }
        list.revoke_key_id(authority.key(), key_id.as_bytes());
        return Ok(());
    }
    if let Some(text) = value("hash:") {
        let digest = text
            .strip_prefix("SHA256:")
            .ok_or_else(|| fatal(format!("{position}: unsupported hash algorithm")))?;
        let digest = FingerprintHash::decode(digest)
            .and_then(|bytes| <[u8; 32]>::try_from(bytes).ok())
            .ok_or_else(|| fatal(format!("{position}: decode hash failed: invalid format")))?;
        list.revoke_sha256(digest);
        return Ok(());
    }
    let parse = |text: &str| {
        PublicKey::from_openssh_line(text)
            .map(|(key, _)| key)
            .ok_or_else(|| fatal(format!("{position}: invalid key: invalid format")))
    };
    if let Some(text) = value("key:") {
        list.revoke_key(&parse(text)?);
    } else if let Some(text) = value("sha1:") {
        list.revoke_sha1(digest(Hash::Sha1, &parse(text)?));
    } else if let Some(text) = value("sha256:") {
        list.revoke_sha256(digest(Hash::Sha256, &parse(text)?));
    } else {
        list.revoke(&parse(line)?);
    }
    Ok(())
}

fn digest<const N: usize>(hash: Hash, key: &PublicKey) -> [u8; N] {
    let digest = hash.digest(&[key.plain().blob()]);
    let mut out = [0; N];
    out.copy_from_slice(digest.as_ref());
    out
}

/// Parses `5` or `5-9`.
fn serials(text: &str, position: &str) -> Outcome<(u64, u64)> {
    let parse = |number: &str| {
        let digits = number.strip_prefix("0x").unwrap_or(number);
        parse_number(number).ok_or_else(|| {
            if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) {
                fatal(format!("{position}: serial out of range"))
            } else {
                fatal(format!("{position}: invalid serial \"{}\"", lh_client::sanitise(number)))
            }
        })
    };
    let Some((first, last)) = text.split_once('-') else {
        let serial = parse(text)?;
        return Ok((serial, serial));
    };
    let (first, last) = (parse(first)?, parse(last)?);
    if last <= first {
        return Err(fatal(format!("{position}: invalid serial range {first}:{last}")));
    }
    Ok((first, last))
}

/// Reports for each named key whether the list revokes it; status 1 when one is revoked.
pub(crate) fn ask(arguments: &Arguments) -> Outcome {
    let path = arguments.file.as_ref().ok_or_else(|| fatal("KRL checking requires an input file"))?;
    let list = load(path)?;
    if arguments.switches.fingerprints {
        print(describe(&list))?;
    }
    let mut revoked = false;
    for file in &arguments.operands {
        let file = Path::new(file);
        let (key, comment) = load_public(file).ok_or_else(|| {
            fatal(format!("Cannot load public key {}: No such file or directory", shown(file)))
        })?;
        let verdict = if list.is_revoked(&key) { "REVOKED" } else { "ok" };
        revoked |= list.is_revoked(&key);
        let comment =
            if comment.is_empty() { String::new() } else { format!(" ({})", lh_client::sanitise(&comment)) };
        print(format!("{}{comment}: {verdict}\n", shown(file)))?;
    }
    if revoked { Err(silent()) } else { Ok(()) }
}

/// The list as a specification that would create it again, as far as possible.
fn describe(list: &Krl) -> String {
    let contents = list.contents();
    let mut out =
        format!("# KRL version {}\n# Generated at {}\n", list.version, times::show_compact(list.generated));
    if !list.comment.is_empty() {
        out.push_str(&format!("# Comment: {}\n", lh_client::sanitise(&list.comment)));
    }
    out.push('\n');
    let named = |blob: &[u8]| match PublicKey::from_blob(blob) {
        Ok(key) => (key.fingerprint(FingerprintHash::Sha256), lh_client::sanitise(key.key_type())),
        Err(_) => ("invalid key".to_owned(), String::new()),
    };
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    for blob in contents.keys {
        let (fingerprint, key_type) = named(blob);
        out.push_str(&format!("hash: {fingerprint} # {key_type}\n"));
    }
    for sum in contents.sha256 {
        out.push_str(&format!("hash: SHA256:{}\n", hex(sum)));
    }
    if !contents.sha1.is_empty() {
        // Specifications have no keyword for these.
        contents.sha1.iter().for_each(|sum| out.push_str(&format!("# hash SHA1:{}\n", hex(*sum))));
    }
    for revoked in contents.certificates {
        out.push('\n');
        if revoked.authority.is_empty() {
            out.push_str("# Wildcard CA\n");
        } else {
            let (fingerprint, key_type) = named(revoked.authority);
            out.push_str(&format!("# CA key {key_type} {fingerprint}\n"));
        }
        for (first, last) in revoked.serials {
            if first == last {
                out.push_str(&format!("serial: {first}\n"));
            } else {
                out.push_str(&format!("serial: {first}-{last}\n"));
            }
        }
        for key_id in revoked.key_ids {
            out.push_str(&format!("id: {}\n", lh_client::sanitise(&String::from_utf8_lossy(key_id))));
        }
    }
    out
}

fn load(path: &Path) -> Outcome<Krl> {
    let bytes = read(path)
        .map_err(|why| fatal(format!("Unable to load KRL {}: {}", shown(path), errno_text(&why))))?;
    if !Krl::is_binary(&bytes) {
        return Err(fatal(format!("Invalid KRL file {}: KRL file has invalid magic number", shown(path))));
    }
    Krl::parse(&bytes).map_err(|why| fatal(format!("Invalid KRL file {}: {why}", shown(path))))
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let from: Box<dyn io::Read> =
        if path.as_os_str() == "-" { Box::new(io::stdin()) } else { Box::new(fs::File::open(path)?) };
    from.take(MAX_FILE + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_FILE { Err(io::ErrorKind::FileTooLarge.into()) } else { Ok(bytes) }
}
