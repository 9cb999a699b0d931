//! `-t` and `-f`: the command line of a remote side of the old protocol.

use std::os::unix::ffi::OsStrExt as _;

use lh_cli::flags::Parsed;

/// The command line of a remote side.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RemoteArguments {
    pub(crate) direction: Direction,
    /// `-r`.
    pub(crate) recursive: bool,
    /// `-p`.
    pub(crate) preserve: bool,
    /// `-d`.
    pub(crate) target_must_be_dir: bool,
    /// `-v`.
    pub(crate) verbose: bool,
}

/// Direction of the copy, as this side sees it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// `-f`: sends these paths.
    Send(Vec<Vec<u8>>),
    /// `-t`: receives into this path.
    Receive(Vec<u8>),
}

/// Why a command line is refused. The other side shows the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RefusedArguments {
    /// HPN-SSH's client would send names with digests in front of them, and wait for answers of another form.
    #[error("-Z is not supported in the old protocol; copies over SFTP are resumed")]
    Resume,
    /// `-t` without a path, or with several.
    #[error("ambiguous target")]
    AmbiguousTarget,
}

impl RefusedArguments {
    /// Returns the record of the protocol: a fatal error, or an ordinary one.
    pub(crate) fn record(self) -> Vec<u8> {
        let kind = match self {
            Self::Resume => '\x02',
            Self::AmbiguousTarget => '\x01',
        };
        format!("{kind}scp: {self}\n").into_bytes()
    }
}

impl RemoteArguments {
    /// Interprets the command line of a remote side; `None` for that of an ordinary copy.
    ///
    /// # Errors
    /// The other side wants what this one cannot do.
    pub(crate) fn of(parsed: &Parsed) -> Option<Result<Self, RefusedArguments>> {
        (parsed.has('t') || parsed.has('f')).then(|| Self::interpret(parsed))
    }

    fn interpret(parsed: &Parsed) -> Result<Self, RefusedArguments> {
        if parsed.has('Z') {
            return Err(RefusedArguments::Resume);
        }
        let direction = if parsed.has('f') {
            Direction::Send(parsed.operands.iter().map(|path| path.as_bytes().to_vec()).collect())
        } else if let [target] = &parsed.operands[..] {
            Direction::Receive(target.as_bytes().to_vec())
        } else {
            return Err(RefusedArguments::AmbiguousTarget);
        };
        Ok(Self {
            direction,
            recursive: parsed.has('r'),
            preserve: parsed.has('p'),
            target_must_be_dir: parsed.has('d'),
            verbose: parsed.has('v'),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use lh_cli::flags::SCP;

    use super::*;

    fn interpreted(words: &[&str]) -> Result<RemoteArguments, RefusedArguments> {
        let parsed = SCP.parse(words.iter().map(OsString::from)).expect("known flags");
        RemoteArguments::of(&parsed).expect("a remote side")
    }

    #[test]
    fn flags_of_the_other_side_are_typed() {
        let sends = interpreted(&["-rpf", "--", "a", "b"]).expect("paths");
        assert_eq!(sends.direction, Direction::Send(vec![b"a".to_vec(), b"b".to_vec()]));
        assert!(sends.recursive && sends.preserve && !sends.target_must_be_dir && !sends.verbose);
        let receives = interpreted(&["-v", "-d", "-t", "dir"]).expect("a target");
        assert_eq!(receives.direction, Direction::Receive(b"dir".to_vec()));
        assert!(receives.target_must_be_dir && receives.verbose && !receives.recursive);
    }

    #[test]
    fn only_the_two_flags_make_a_remote_side() {
        let parsed = SCP.parse(["-rpd", "a", "b"].iter().map(OsString::from)).expect("known flags");
        assert_eq!(RemoteArguments::of(&parsed), None);
    }

    #[test]
    fn refusals_are_records_of_the_protocol() {
        for words in [&["-t"][..], &["-t", "a", "b"]] {
            let refused = interpreted(words).expect_err("no single target");
            assert_eq!(refused.record(), b"\x01scp: ambiguous target\n");
        }
        let refused = interpreted(&["-Z", "-t", "a"]).expect_err("not spoken");
        let text = b"\x02scp: -Z is not supported in the old protocol; copies over SFTP are resumed\n";
        assert_eq!(refused.record(), text);
    }
}
