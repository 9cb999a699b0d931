//! Which command the flags choose.

use std::path::PathBuf;

use lh_cli::flags::Parsed;

/// A command of the program, with the value of the flag that chooses it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Command {
    /// `-Y`: this task about signatures.
    Signature(String),
    /// `-k`
    MakeRevocations,
    /// `-Q`
    AskRevocations,
    /// `-s`: the authority's key.
    Certify(PathBuf),
    /// `-L`
    ShowCertificate,
    /// `-R`
    RemoveHost(String),
    /// `-F`
    FindHost(String),
    /// `-H`
    HashHosts,
    /// `-D`: the library of the token.
    ShowToken(String),
    /// `-K`
    DownloadKeys,
    /// `-l` and `-B`
    Fingerprint,
    /// `-p`
    ChangePassphrase,
    /// `-c`
    ChangeComment,
    /// `-e`
    Export,
    /// `-i` and `-X`
    Import,
    /// `-y`
    ShowPublic,
    /// `-r`: the host's name.
    DnsRecords(String),
    /// `-M`: this task about moduli.
    Moduli(String),
    /// `-A`
    GenerateHostKeys,
    /// No flag.
    Generate,
}

/// Flags and operands that do not go together. The usage follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum UsageError {
    #[error("Too few arguments.")]
    TooFew,
    #[error("Too many arguments.")]
    TooMany,
    #[error("Can only have one of -p and -c.")]
    PassphraseAndComment,
    #[error("Cannot use -l with -H or -R.")]
    FingerprintOfHosts,
}

impl Command {
    /// Chooses the command. Where flags ask for several, the order is ssh-keygen's.
    ///
    /// # Errors
    /// The flags and operands do not go together.
    pub(crate) fn choose(parsed: &Parsed) -> Result<Self, UsageError> {
        let has = |flag| parsed.has(flag);
        let text = |flag| parsed.text(flag);
        if let Some(task) = text('Y') {
            return Ok(Self::Signature(task));
        }
        let authority = parsed.value('s').map(PathBuf::from);
        let operands = !parsed.operands.is_empty();
        if authority.is_some() && !operands && !has('k') {
            return Err(UsageError::TooFew);
        }
        if operands && authority.is_none() && !has('k') && !has('Q') && text('M').is_none() {
            return Err(UsageError::TooMany);
        }
        if has('p') && has('c') {
            return Err(UsageError::PassphraseAndComment);
        }
        if has('l') && (has('H') || text('R').is_some()) {
            return Err(UsageError::FingerprintOfHosts);
        }
        Ok(if has('k') {
            Self::MakeRevocations
        } else if has('Q') {
            Self::AskRevocations
        } else if let Some(authority) = authority {
            Self::Certify(authority)
        } else if has('L') {
            Self::ShowCertificate
        } else if let Some(host) = text('R') {
            Self::RemoveHost(host)
        } else if let Some(host) = text('F') {
            Self::FindHost(host)
        } else if has('H') {
            Self::HashHosts
        } else if let Some(library) = text('D') {
            Self::ShowToken(library)
        } else if has('K') {
            Self::DownloadKeys
        } else if has('l') || has('B') {
            Self::Fingerprint
        } else if has('p') {
            Self::ChangePassphrase
        } else if has('c') {
            Self::ChangeComment
        } else if has('e') {
            Self::Export
        } else if has('i') || has('X') {
            Self::Import
        } else if has('y') {
            Self::ShowPublic
        } else if let Some(host) = text('r') {
            Self::DnsRecords(host)
        } else if let Some(task) = text('M') {
            Self::Moduli(task)
        } else if has('A') {
            Self::GenerateHostKeys
        } else {
            Self::Generate
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lh_cli::flags::KEYGEN;

    fn chosen(line: &str) -> Result<Command, UsageError> {
        let words = line.split_whitespace().map(std::ffi::OsString::from);
        let Ok(parsed) = KEYGEN.parse(words) else { panic!("{line}") };
        Command::choose(&parsed)
    }

    #[test]
    fn flags_choose_a_command_in_a_fixed_order() {
        for (line, command) in [
            ("", Command::Generate),
            ("-A", Command::GenerateHostKeys),
            ("-l -F host", Command::FindHost("host".to_owned())),
            ("-l -D lib", Command::ShowToken("lib".to_owned())),
            ("-s ca -I id key", Command::Certify(PathBuf::from("ca"))),
            ("-k -s ca -f krl", Command::MakeRevocations),
            ("-Y sign -n file x", Command::Signature("sign".to_owned())),
            ("-B -y", Command::Fingerprint),
            ("-M screen out", Command::Moduli("screen".to_owned())),
        ] {
            assert_eq!(chosen(line), Ok(command), "{line}");
        }
    }

    #[test]
    fn flags_that_do_not_go_together_are_refused() {
        for (line, words) in [
            ("-s ca -I id", "Too few arguments."),
            ("-l key", "Too many arguments."),
            ("-p -c", "Can only have one of -p and -c."),
            ("-l -H", "Cannot use -l with -H or -R."),
            ("-l -R host", "Cannot use -l with -H or -R."),
        ] {
            assert_eq!(chosen(line).map_err(|error| error.to_string()), Err(words.to_owned()), "{line}");
        }
    }
}
