//! Signatures of files (`-Y`), as used by `git` and others.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use lh_crypto::{Hash, Hasher, Krl, PublicKey, SshSignature, SshSignatureError, signed_data};
use lh_sys::errno_text;

use crate::arguments::Arguments;
use crate::console::{Failure, Outcome, error, fatal, note, print, shown, silent_fatal, warn};
use crate::error::{NotSearched, OptionError, SignError, UnreadableSignature, Unverified};
use crate::files;
use crate::files::{LoadError, load_public};
use crate::save::may_overwrite;
use crate::signer::{NoAgent, Signer};
use crate::signers::Signers;
use crate::times;

/// Upper limit of a signature file, bytes.
const MAX_SIGNATURE: u64 = 1024 * 1024;
/// First line of a signature.
const HEADER: &str = "-----BEGIN SSH SIGNATURE-----";
/// Upper limit of a key revocation list, bytes.
const MAX_REVOKED: u64 = 128 << 20;

/// Operation on a signature; it decides which options are valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Task {
    Sign,
    Verify,
    FindPrincipals,
}

/// Settings of `-O`.
struct Options {
    hash: String,
    print_key: bool,
    time: u64,
}

impl Options {
    fn parse(arguments: &Arguments, task: Task) -> Result<Self, OptionError> {
        let mut options = Self { hash: "sha512".into(), print_key: false, time: times::now() };
        for option in &arguments.values.options {
            let option = option.to_string_lossy();
            let lower = option.to_ascii_lowercase();
            if let Some(hash) = lower.strip_prefix("hashalg=").filter(|_| task == Task::Sign) {
                options.hash = hash.to_owned();
            } else if lower == "print-pubkey" && task == Task::Verify {
                options.print_key = true;
            } else if lower.starts_with("verify-time=") && task != Task::Sign {
                options.time =
                    times::parse_absolute(&option["verify-time=".len()..]).ok_or(OptionError::VerifyTime)?;
            } else {
                return Err(OptionError::Unknown(option.into_owned()));
            }
        }
        Ok(options)
    }
}

/// Runs the task of `-Y`. `None` for an unknown task.
pub(crate) fn run(arguments: &Arguments, task: &str) -> Option<Outcome> {
    let values = &arguments.values;
    let missing = |task: &str, what: &str| error(format!("Too few arguments for {task}: missing {what}"));
    // OpenSSH's text for some of these has no blank after the colon, and scripts may match it.
    let unspaced = |task: &str, what: &str| error(format!("Too few arguments for {task}:missing {what}"));
    let namespace = values.names.as_deref().filter(|name| !name.is_empty());
    let signature = values.signer.as_deref();
    Some(match task {
        "sign" => (|| {
            let namespace = namespace.ok_or_else(|| missing(task, "namespace"))?;
            let key = arguments.file.as_ref().ok_or_else(|| missing(task, "key"))?;
            sign(arguments, key, namespace)
        })(),
        "verify" => (|| {
            let namespace = namespace.ok_or_else(|| missing(task, "namespace"))?;
            let signature = signature.ok_or_else(|| missing(task, "signature file"))?;
            let list = arguments.file.as_ref().ok_or_else(|| missing("sign", "allowed keys file"))?;
            let principal = values.identity.as_deref().ok_or_else(|| missing(task, "principal identity"))?;
            verify(arguments, signature, namespace, Some((principal, list)), values.revoked_keys.as_deref())
        })(),
        "check-novalidate" => (|| {
            let namespace = namespace.ok_or_else(|| missing(task, "namespace"))?;
            let signature = signature.ok_or_else(|| missing(task, "signature file"))?;
            verify(arguments, signature, namespace, None, None)
        })(),
        "find-principals" => (|| {
            let signature = signature.ok_or_else(|| unspaced(task, "signature file"))?;
            let list = arguments.file.as_ref().ok_or_else(|| unspaced(task, "allowed keys file"))?;
            find_principals(arguments, signature, list)
        })(),
        "match-principals" => (|| {
            let list = arguments.file.as_ref().ok_or_else(|| unspaced(task, "allowed keys file"))?;
            let principal = values.identity.as_deref().ok_or_else(|| missing(task, "principal ID"))?;
            match_principals(principal, list)
        })(),
        _ => return None,
    })
}

/// Signs files, or standard input.
fn sign(arguments: &Arguments, key_path: &Path, namespace: &str) -> Outcome {
    let options = Options::parse(arguments, Task::Sign).map_err(|why| fatal(why.to_string()))?;
    let (key, _) = load_public(key_path).ok_or_else(|| {
        fatal(format!("Couldn't load public key {}: No such file or directory", shown(key_path)))
    })?;
    let mut signer = open_signer(arguments, key_path, &key)?;
    let files = &arguments.operands;
    let named_input = files.iter().any(|file| file == "-");
    if named_input && files.len() > 1 {
        return Err(fatal("Cannot sign mix of paths and standard input"));
    }
    if files.is_empty() || named_input {
        if !arguments.quiet {
            note("Signing data on standard input");
        }
        let armor = sign_stream(&mut signer, &key, &options, namespace, "(stdin)", io::stdin())?;
        return print(armor);
    }
    for file in files {
        let path = Path::new(file);
        let name = shown(path);
        let opened = fs::File::open(path)
            .map_err(|why| fatal(format!("Cannot open {name} for signing: {}", errno_text(&why))))?;
        if !arguments.quiet {
            note(&format!("Signing file {name}"));
        }
        let armor = sign_stream(&mut signer, &key, &options, namespace, &name, opened)?;
        let mut out = file.clone();
        out.push(".sig");
        let out = PathBuf::from(out);
        if !may_overwrite(&out)? {
            continue;
        }
        files::write_plain(&out, armor.as_bytes())
            .map_err(|why| fatal(format!("Unable to write {}: {}", shown(&out), errno_text(&why))))?;
        if !arguments.quiet {
            note(&format!("Write signature to {}", shown(&out)));
        }
    }
    Ok(())
}

/// Opens the agent's key if it holds it, else the private key that belongs to the file.
fn open_signer(arguments: &Arguments, path: &Path, key: &PublicKey) -> Outcome<Signer> {
    match Signer::from_agent(key) {
        Ok(signer) => return Ok(signer),
        Err(NoAgent::NotPresent) if arguments.switches.in_agent => {
            return Err(fatal("Couldn't get agent socket"));
        }
        Err(NoAgent::NotHeld | NoAgent::Failed(_)) if arguments.switches.in_agent => {
            return Err(fatal("Couldn't find key in agent"));
        }
        Err(_) => {}
    }
    let name = path.as_os_str().to_string_lossy().into_owned();
    let private = ["-cert.pub", ".pub"].into_iter().find_map(|suffix| name.strip_suffix(suffix));
    let private = private.map_or_else(|| path.to_owned(), PathBuf::from);
    // Git passes on only the last lines of a failure, and users search for OpenSSH's words.
    let unusable = |why| match why {
        LoadError::Io(missing) if missing.kind() == io::ErrorKind::NotFound && private != path => {
            fatal(format!("No private key found for public key \"{}\"", shown(path)))
        }
        _ => fatal(format!("No private key found for \"{}\"", shown(&private))),
    };
    let signer = Signer::from_file_or(arguments, &private, unusable)?;
    if signer.public() != key.plain() {
        return Err(fatal(format!("Public key {} doesn't match private {}", shown(path), shown(&private))));
    }
    Ok(signer)
}

/// The armored signature of a reader's contents.
fn sign_stream(
    signer: &mut Signer,
    key: &PublicKey,
    options: &Options,
    namespace: &str,
    name: &str,
    from: impl Read,
) -> Outcome<String> {
    let failed = |why: SignError| fatal(format!("Signing {name} failed: {why}"));
    let hash = match options.hash.as_str() {
        "sha256" => Hash::Sha256,
        "sha512" => Hash::Sha512,
        other => {
            warn(&format!(
                "sshsig_check_hashalg: unsupported hash algorithm \"{}\"\n\
                 sshsig_sign_fd: hash_file: signature algorithm not supported",
                lh_client::sanitise(other)
            ));
            return Err(failed(SignError::Hash));
        }
    };
    let digest = hash_all(hash.start(), from).map_err(|why| failed(SignError::Data(why)))?;
    let algorithm = key.plain().signature_algorithms().first().copied().unwrap_or_default();
    let signature = signer.sign(algorithm, &signed_data(namespace, hash, &digest)).map_err(failed)?;
    let signature = SshSignature {
        key: key.clone(),
        namespace: namespace.to_owned(),
        hash: options.hash.clone(),
        signature,
    };
    Ok(signature.to_armor())
}

fn hash_all(mut hasher: Hasher, mut from: impl Read) -> io::Result<Vec<u8>> {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return Ok(hasher.finish().as_ref().to_vec()),
            Ok(count) => hasher.update(&buffer[..count]),
            Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
            Err(why) => return Err(why),
        }
    }
}

/// Verifies a signature of standard input; with a list, also its principal.
fn verify(
    arguments: &Arguments,
    signature: &Path,
    namespace: &str,
    expected_signer: Option<(&str, &Path)>,
    revoked: Option<&Path>,
) -> Outcome {
    let checked = Options::parse(arguments, Task::Verify).map_err(Unverified::from).and_then(|options| {
        let signature = accepted(signature, namespace, expected_signer, revoked, options.time)?;
        Ok((options, signature))
    });
    let (options, signature) = match checked {
        Ok(checked) => checked,
        Err(why) => {
            warn(&why.to_string());
            if !arguments.quiet {
                print("Could not verify signature.\n")?;
            }
            return Err(silent_fatal());
        }
    };
    let key = &signature.key;
    if !arguments.quiet {
        let by = expected_signer
            .map_or(String::new(), |(principal, _)| format!(" for {}", lh_client::sanitise(principal)));
        print(format!(
            "Good \"{}\" signature{by} with {} key {}\n",
            lh_client::sanitise(namespace),
            key.display_type(),
            key.fingerprint(arguments.hash)
        ))?;
    }
    if options.print_key {
        print(format!("{}\n", key.to_openssh_line("")))?;
    }
    Ok(())
}

/// Reads a signature, verifies it against standard input, and checks its key: that it is not revoked, and
/// with a list, that it is the principal's.
fn accepted(
    path: &Path,
    namespace: &str,
    expected_signer: Option<(&str, &Path)>,
    revoked: Option<&Path>,
    time: u64,
) -> Result<SshSignature, Unverified> {
    let signature = read_signature(path, "sig_verify")?;
    let digest = hash_all(signature.hash()?.start(), io::stdin()).map_err(Unverified::Data)?;
    signature.verify(namespace, &digest)?;
    if let Some(path) = revoked {
        let bytes = files::read_up_to(path, MAX_REVOKED).map_err(|_| Unverified::NotAllowed)?;
        let list = Krl::read(&bytes).map_err(|why| Unverified::Revocations { list: path.to_owned(), why })?;
        if list.is_revoked(&signature.key) {
            return Err(Unverified::NotAllowed);
        }
    }
    if let Some((principal, list)) = expected_signer {
        let list = Signers::read(list).ok_or(Unverified::NotAllowed)?;
        if !list.allow(&signature.key, principal, namespace, time) {
            return Err(Unverified::NotAllowed);
        }
    }
    Ok(signature)
}

fn read_signature(path: &Path, task: &'static str) -> Result<SshSignature, UnreadableSignature> {
    let bytes = files::read_up_to(path, MAX_SIGNATURE).map_err(UnreadableSignature::File)?;
    let text = String::from_utf8_lossy(&bytes);
    SshSignature::from_armor(&text).map_err(|why| match why {
        SshSignatureError::Format if !text.starts_with(HEADER) => {
            UnreadableSignature::Header { task, short: text.len() < HEADER.len() }
        }
        SshSignatureError::Format if !text.contains("\n-----END SSH SIGNATURE-----") => {
            UnreadableSignature::Footer { task }
        }
        why => UnreadableSignature::Contents { task, why },
    })
}

/// Prints the principals that a signature may belong to.
fn find_principals(arguments: &Arguments, signature: &Path, list: &Path) -> Outcome {
    match principals(arguments, signature, list) {
        Ok(Some(principals)) => print(
            principals.iter().map(|name| format!("{}\n", lh_client::sanitise(name))).collect::<String>(),
        ),
        Ok(None) => Err(no_principal(255)),
        Err(why) => {
            warn(&why.to_string());
            Err(no_principal(255))
        }
    }
}

/// The principals of the first line for a signature's key.
fn principals(
    arguments: &Arguments,
    signature: &Path,
    list: &Path,
) -> Result<Option<Vec<String>>, NotSearched> {
    let options = Options::parse(arguments, Task::FindPrincipals)?;
    let signature = read_signature(signature, "sig_find_principals")?;
    let authentic =
        signature.key.certificate().is_none_or(|cert| cert.verify(&[cert.signature_algorithm()]).is_ok());
    if !authentic {
        return Err(NotSearched::Certificate);
    }
    let list = Signers::read(list).ok_or(NotSearched::NoList)?;
    Ok(list.find(&signature.key, options.time))
}

/// Prints the lines that match a name.
fn match_principals(principal: &str, list: &Path) -> Outcome {
    // OpenSSH exits with its negative error number.
    const SYSTEM_ERROR: u8 = 232;
    const KEY_NOT_FOUND: u8 = 210;
    const INVALID_FORMAT: u8 = 252;
    let Some(list) = Signers::read(list) else { return Err(no_principal(SYSTEM_ERROR)) };
    let Some(found) = list.matching(principal) else { return Err(no_principal(INVALID_FORMAT)) };
    if found.is_empty() {
        return Err(no_principal(KEY_NOT_FOUND));
    }
    print(found.iter().map(|name| format!("{}\n", lh_client::sanitise(name))).collect::<String>())
}

fn no_principal(status: u8) -> Failure {
    note("No principal matched.");
    Failure { status, text: String::new() }
}
