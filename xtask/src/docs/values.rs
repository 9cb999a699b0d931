//! What may stand behind a flag, as far as a shell can complete it. The flag tables name their values; the names say what they are.

use lh_cli::flags::{Flag, Program};

/// How a value is completed.
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
    /// What `lhssh -Q` lists under this name.
    Query(&'static str),
    /// A keyword of `ssh_config` and `=`.
    ClientKeyword,
    /// A keyword of `sshd_config` and `=`.
    ServerKeyword,
    /// One of these.
    Words(&'static [&'static str]),
    /// Nothing a shell could know.
    Anything,
}

/// What goes behind `flag` of `program`.
pub(super) fn of_flag(program: &Program, flag: &Flag) -> Values {
    let name = flag.value.unwrap_or_default();
    let last = name.rsplit([' ', '=']).next().unwrap_or(name);
    match (program.name, flag.short, last) {
        ("lhssh", 'O', _) => {
            Values::Words(&["check", "forward", "cancel", "exit", "stop", "proxy", "conninfo", "channels"])
        }
        ("lhssh", 'Q', _) => Values::Query("help"),
        ("lhssh-keygen", 't', _) => {
            Values::Words(&["ed25519", "ecdsa", "rsa", "mldsa44-ed25519", "ed25519-sk", "ecdsa-sk"])
        }
        ("lhssh-keygen", 'E', _) => Values::Words(&["sha256", "md5"]),
        ("lhssh-keygen", 'm', _) => Values::Words(&["RFC4716", "PKCS8", "PEM"]),
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

/// What the operands are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operands {
    /// A host, then a command.
    HostThenCommand,
    /// Files here or, as `host:path`, there.
    FilesAndHosts,
    /// A host.
    Hosts,
    /// Files.
    Files,
    /// None.
    Nothing,
}

/// What follows the flags of `program`.
pub(super) fn operands(program: &Program) -> Operands {
    match program.name {
        "lhssh" => Operands::HostThenCommand,
        "lhscp" => Operands::FilesAndHosts,
        "lhsftp" | "lhssh-keyscan" => Operands::Hosts,
        _ if program.operands.is_empty() => Operands::Nothing,
        _ => Operands::Files,
    }
}
