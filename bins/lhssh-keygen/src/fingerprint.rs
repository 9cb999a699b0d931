//! Shows fingerprints (`-l`, `-B`) of keys in any file: private and public key files, authorized_keys,
//! known_hosts, standard input.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::Path;

use lh_crypto::{PublicKey, Zeroizing};
use lh_sys::errno_text;

use crate::arguments::Arguments;
use crate::console::{Outcome, fatal, print, program, shown, warn};
use crate::files::{KeyFile, check_permissions, public_name};
use crate::generate::key_file;

/// Upper limit of a list of keys, bytes.
const MAX_LIST: u64 = 64 << 20;

/// Prints the fingerprints of all keys in a file.
pub(crate) fn show(arguments: &Arguments) -> Outcome {
    let path = key_file(arguments)?;
    let stdin = path.as_os_str() == "-";
    let name = if stdin { "(stdin)".to_owned() } else { shown(&path) };
    let bytes = if stdin { read(io::stdin()) } else { File::open(&path).and_then(read) };
    let bytes = match bytes {
        // A directory can be opened but not read.
        Err(error) if error.kind() == io::ErrorKind::IsADirectory => Zeroizing::new(Vec::new()),
        Err(error) => return Err(fatal(format!("{}: {name}: {}", program(), errno_text(&error)))),
        Ok(bytes) => bytes,
    };
    let text = Zeroizing::new(String::from_utf8_lossy(&bytes).into_owned());
    if !stdin && text.lines().next().is_some_and(|line| line.contains("PRIVATE KEY")) {
        return private(arguments, &path, &bytes);
    }
    let mut found = false;
    for line in text.lines() {
        if let Some((key, comment)) = find_key(line) {
            let comment = (!comment.is_empty()).then_some(comment.as_str());
            print(picture(arguments, &key, comment))?;
            found = true;
        }
    }
    if found { Ok(()) } else { Err(fatal(format!("{name} is not a public key file."))) }
}

/// Shows a private key's fingerprint, from the `.pub` file beside it or from its public half. The comment is
/// in the encrypted part, so an encrypted key without a `.pub` file shows none. Where that file has no
/// comment, its name is shown.
fn private(arguments: &Arguments, path: &Path, bytes: &[u8]) -> Outcome {
    let name = public_name(path);
    let beside = fs::read_to_string(&name).ok();
    let beside = beside.as_deref().and_then(|text| text.lines().find_map(PublicKey::from_openssh_line));
    if let Some((key, comment)) = beside {
        let comment = if comment.is_empty() { shown(&name) } else { comment };
        return print(picture(arguments, &key, Some(&comment)));
    }
    let not_a_key = || fatal(format!("{} is not a key file.", shown(path)));
    let file = KeyFile::read_from(bytes, bytes.len() as u64).map_err(|_| not_a_key())?;
    let key = file.public().ok_or_else(not_a_key)?;
    let ours_alone = || fs::metadata(path).is_ok_and(|about| check_permissions(path, &about).is_ok());
    let comment = match file.open(None) {
        Ok(loaded) if ours_alone() => loaded.comment,
        _ => None,
    };
    print(picture(arguments, &key, comment.as_deref()))
}

/// The output for one key, with its randomart for `-v`.
fn picture(arguments: &Arguments, key: &PublicKey, comment: Option<&str>) -> String {
    let comment = lh_client::sanitise(comment.unwrap_or("no comment"));
    let fingerprint =
        if arguments.switches.bubblebabble { key.bubblebabble() } else { key.fingerprint(arguments.hash) };
    let mut out = format!("{} {fingerprint} {comment} ({})\n", key.bits(), key.display_type());
    if arguments.verbose {
        out.push_str(&key.randomart(arguments.hash));
        out.push('\n');
    }
    out
}

/// The key on a line, either first or after one word of options or host names. Its comment is the text after
/// the key, else that word.
fn find_key(line: &str) -> Option<(PublicKey, String)> {
    let blank = [' ', '\t'];
    let line = line.trim_start_matches(blank);
    if line.is_empty() || line.starts_with('#') {
        return None;
    }
    let known = |text: &str| PublicKey::from_openssh_line(text).filter(|(key, _)| is_known(key));
    if let Some((key, comment)) = known(line) {
        return Some((key, without_remark(comment)));
    }
    let end = end_of_word(line)?;
    let (word, rest) = line.split_at(end);
    let (key, comment) = known(rest)?;
    let comment = without_remark(comment);
    Some((key, if comment.is_empty() { word.to_owned() } else { comment }))
}

/// The comment; empty if it begins with `#`, because that is a remark on the line.
fn without_remark(comment: String) -> String {
    if comment.starts_with('#') { String::new() } else { comment }
}

/// Returns whether this build supports the key's type.
fn is_known(key: &PublicKey) -> bool {
    key.certificate().is_some() || !key.signature_algorithms().is_empty()
}

/// End of the first word, which may contain blanks in double quotes; `None` when the line ends there.
fn end_of_word(line: &str) -> Option<usize> {
    let mut quoted = false;
    let mut escaped = false;
    for (at, c) in line.char_indices() {
        match c {
            '"' if !escaped => quoted = !quoted,
            ' ' | '\t' if !quoted => return Some(at),
            _ => {}
        }
        escaped = c == '\\' && !escaped;
    }
    None
}

fn read(from: impl io::Read) -> io::Result<Zeroizing<Vec<u8>>> {
    let mut bytes = Zeroizing::new(Vec::new());
    from.take(MAX_LIST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_LIST {
        warn("The file is too large.");
        return Err(io::Error::from(io::ErrorKind::FileTooLarge));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use lh_crypto::{KeyType, PrivateKey};
    use proptest::prelude::*;

    #[test]
    fn keys_are_found_after_options_and_host_names() {
        let key = PrivateKey::generate(KeyType::Ed25519, None).expect("a key").public().clone();
        let line = key.to_openssh_line("");
        for (text, comment) in [
            (line.clone(), ""),
            (format!("  {line} a b"), "a b"),
            (format!("{line} # remark"), ""),
            (
                format!("from=\"a b\",command=\"say \\\"x y\\\"\" {line}"),
                "from=\"a b\",command=\"say \\\"x y\\\"\"",
            ),
            (format!("host,192.0.2.1 {line} note"), "note"),
        ] {
            assert_eq!(find_key(&text), Some((key.clone(), comment.to_owned())), "{text}");
        }
        for text in ["# x", "", "ssh-ed25519 AAAA", "@revoked host ssh-ed25519"] {
            assert_eq!(find_key(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn arbitrary_lines_do_not_panic(text in "(ssh-ed25519 |[\"\\\\ \t#]|AAAA|[a-z=,]|\\PC){0,30}") {
            let _ = find_key(&text);
        }
    }
}
