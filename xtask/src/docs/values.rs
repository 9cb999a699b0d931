//! Values behind a flag, as far as a shell can complete them. They are derived from the value names in the
//! flag tables.

use std::collections::BTreeMap;

use lh_cli::flags::{Flag, Program};
use lh_config::Keyword;

/// Method of completing a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Values {
    /// A file.
    File,
    /// A directory.
    Directory,
    /// A host, with or without a user.
    Host,
    /// A local user's name.
    User,
    /// An interface of this machine.
    Interface,
    /// A name that `lhssh -Q` lists under this topic.
    Query(&'static str),
    /// A keyword of `ssh_config` and `=`.
    ClientKeyword,
    /// A keyword of `sshd_config` and `=`.
    ServerKeyword,
    /// One of these words.
    Words(&'static [&'static str]),
    /// A value that a shell cannot know.
    Anything,
}

/// Values of `-O` of `lhssh-keygen`, for certificates, signatures, security keys and moduli.
const KEYGEN_OPTIONS: &[&str] = &[
    "application=",
    "bits=",
    "challenge=",
    "checkpoint=",
    "clear",
    "device=",
    "force-command=",
    "generator=",
    "hashalg=",
    "lines=",
    "no-agent-forwarding",
    "no-port-forwarding",
    "no-pty",
    "no-touch-required",
    "no-user-rc",
    "no-x11-forwarding",
    "permit-agent-forwarding",
    "permit-port-forwarding",
    "permit-pty",
    "permit-user-rc",
    "permit-x11-forwarding",
    "prime-tests=",
    "print-pubkey",
    "resident",
    "source-address=",
    "start=",
    "start-line=",
    "user=",
    "verify-required",
    "verify-time=",
    "write-attestation=",
];

/// Returns the method of completing the value of `flag` of `program`.
pub(super) fn of_flag(program: &Program, flag: &Flag) -> Values {
    let name = flag.value.unwrap_or_default();
    let last = name.rsplit([' ', '=']).next().unwrap_or(name);
    match (program.name, flag.short, last) {
        ("lhssh", 'O', _) => {
            Values::Words(&["check", "forward", "cancel", "exit", "stop", "proxy", "conninfo", "channels"])
        }
        ("lhssh", 'Q', _) => Values::Query("help"),
        ("lhssh-keygen", 'O', _) => Values::Words(KEYGEN_OPTIONS),
        ("lhssh-agent", 'O', _) => {
            Values::Words(&["no-restrict-websafe", "allow-remote-pkcs11", "websafe-allow="])
        }
        ("lhssh-keyscan", 'O', _) => Values::Words(&["hashalg=sha1", "hashalg=sha256"]),
        ("lhscp", 'X', _) => Values::Words(&["nrequests=", "buffer=", "answer-timeout=", "first-answer="]),
        ("lhsftp", 'X', _) => Values::Words(&["nrequests=", "buffer="]),
        ("lhssh-keygen", 't', _) => {
            Values::Words(&["ed25519", "ecdsa", "rsa", "mldsa44-ed25519", "ed25519-sk", "ecdsa-sk"])
        }
        ("lhssh-keygen", 'E', _) => Values::Words(&["sha256", "md5"]),
        ("lhssh-keygen", 'm', _) => Values::Words(&["RFC4716", "PKCS8", "PEM", "hexdump"]),
        ("lhssh-keygen", 'Y', _) => {
            Values::Words(&["sign", "verify", "check-novalidate", "find-principals", "match-principals"])
        }
        (_, _, "option") if program.name.ends_with("sshd") => Values::ServerKeyword,
        (_, 'o', _) if flag.help.contains("keyword") => Values::ClientKeyword,
        (_, _, "cipher_spec" | "cipher") => Values::Query("cipher"),
        (_, _, "mac_spec") => Values::Query("mac"),
        (_, _, "login_name") => Values::User,
        (_, _, "bind_interface") => Values::Interface,
        (_, _, "destination" | "hostname" | "[user@]host[:port]") => Values::Host,
        (_, _, name) if name.ends_with("dir") || name.ends_with("directory") => Values::Directory,
        (_, _, name)
            if ["file", "path", "key", "config", "program", "list", "provider", "pkcs11"]
                .iter()
                .any(|part| name.ends_with(part)) =>
        {
            Values::File
        }
        _ => Values::Anything,
    }
}

/// Method of completing the value behind `KEYWORD=`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Setting {
    /// One of these words.
    Words(Vec<&'static str>),
    /// A name that `lhssh -Q` lists under the name of the keyword.
    Query(&'static str),
    /// A file.
    File,
}

/// Returns the method of completing the value of `keyword`; `None` if a shell cannot know the values.
fn of_keyword(keyword: &Keyword) -> Option<Setting> {
    match keyword.kind {
        "algorithm list" => Some(Setting::Query(keyword.name)),
        "file name, may be repeated" => Some(Setting::File),
        _ => {
            // `yes` and `no` have the synonyms `true` and `false`.
            let words = keyword.words.iter().copied().filter(|word| !matches!(*word, "true" | "false"));
            Some(Setting::Words(words.collect())).filter(|words| *words != Setting::Words(Vec::new()))
        }
    }
}

/// Returns the keywords of a table, grouped by the method of completing their values.
pub(super) fn settings(table: &'static [Keyword]) -> BTreeMap<Setting, Vec<&'static str>> {
    let mut groups: BTreeMap<Setting, Vec<&'static str>> = BTreeMap::new();
    for keyword in table {
        if let Some(setting) = of_keyword(keyword) {
            groups.entry(setting).or_default().push(keyword.name);
        }
    }
    groups
}

/// Returns the names of keywords in lower case, as alternatives of a shell's `case`.
pub(super) fn pattern(names: &[&str]) -> String {
    names.join("|").to_ascii_lowercase()
}

/// Kind of a program's operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operands {
    /// A host, then a command.
    HostThenCommand,
    /// Local files, or remote ones as `host:path`.
    FilesAndHosts,
    /// A host.
    Hosts,
    /// Files.
    Files,
    /// None.
    Nothing,
}

/// Returns the kind of operands of `program`.
pub(super) fn operands(program: &Program) -> Operands {
    match program.name {
        "lhssh" => Operands::HostThenCommand,
        "lhscp" => Operands::FilesAndHosts,
        "lhsftp" | "lhssh-keyscan" => Operands::Hosts,
        _ if program.operands.is_empty() => Operands::Nothing,
        _ => Operands::Files,
    }
}
