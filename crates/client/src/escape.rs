//! Escape sequences typed at the start of a line in a terminal session (ssh(1), "ESCAPE CHARACTERS").
//!
//! A state machine without a terminal: keyboard bytes in, channel bytes and actions out. So the line-start
//! rules can be tested key by key.

/// Action of an escape sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// `~.`: end the connection.
    Disconnect,
    /// `~^Z`: suspend this process.
    Suspend,
    /// `~&`: end input and continue in the background until the channels are closed.
    Background,
    /// `~#`: list the channels.
    ListChannels,
    /// `~?`: show the list of escapes.
    Help,
    /// `~B`: send a BREAK.
    Break,
    /// `~R`: rekey.
    Rekey,
    /// `~V`: lower the log level.
    LessVerbose,
    /// `~v`: raise the log level.
    MoreVerbose,
    /// `~I`: show information about the connection.
    ConnectionInformation,
    /// `~C`: a command line for forwards.
    CommandLine,
}

/// What the escape sequences of a session act on, for the text of `~?`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EscapeScope {
    /// The connection of this process.
    Connection {
        /// `~C` is permitted (`EnableEscapeCommandline`).
        command_line: bool,
    },
    /// One session of a mux client; the connection is the master's.
    MuxSession,
}

/// Finds escape sequences in the user's input.
#[derive(Debug, Clone)]
pub struct EscapeFilter {
    /// The escape character; `None` lets everything through.
    escape: Option<u8>,
    at_line_start: bool,
    pending: bool,
}

impl EscapeFilter {
    /// Starts at the beginning of a line. `None` means there are no escapes (`-e none`).
    pub const fn new(escape: Option<u8>) -> Self {
        Self { escape, at_line_start: true, pending: false }
    }

    /// Takes bytes from the front of `input` and appends those for the channel to `out`. Stops after the
    /// first action or at the end of the input.
    pub fn process(&mut self, input: &mut &[u8], out: &mut Vec<u8>) -> Option<Action> {
        let Some(escape) = self.escape else {
            out.extend_from_slice(input);
            *input = &[];
            return None;
        };
        while let [byte, rest @ ..] = *input {
            *input = rest;
            if self.pending {
                self.pending = false;
                let action = match byte {
                    b'.' => Some(Action::Disconnect),
                    0x1a => Some(Action::Suspend),
                    b'&' => Some(Action::Background),
                    b'#' => Some(Action::ListChannels),
                    b'?' => Some(Action::Help),
                    b'B' => Some(Action::Break),
                    b'R' => Some(Action::Rekey),
                    b'V' => Some(Action::LessVerbose),
                    b'v' => Some(Action::MoreVerbose),
                    b'I' => Some(Action::ConnectionInformation),
                    b'C' => Some(Action::CommandLine),
                    _ => None,
                };
                if action.is_some() {
                    // The line is still at its start: another escape may follow at once.
                    return action;
                }
                // A doubled escape character stands for itself; before any other character it is sent as
                // typed.
                if *byte != escape {
                    out.push(escape);
                }
            } else if self.at_line_start && *byte == escape {
                self.pending = true;
                continue;
            }
            self.at_line_start = matches!(byte, b'\r' | b'\n');
            out.push(*byte);
        }
        None
    }

    /// Returns the escape character as the user sees it: `~`, `^]`; empty when escapes are off.
    pub fn shown(&self) -> String {
        match self.escape {
            None => String::new(),
            Some(byte) if byte < 0x20 => format!("^{}", char::from(byte + 0x40)),
            Some(0x7f) => "^?".to_owned(),
            Some(byte) => char::from(byte).to_string(),
        }
    }

    /// Returns the text of `~?`: the sequences that `scope` permits. Lines end in CR LF because the terminal
    /// is raw.
    pub fn help(&self, scope: EscapeScope) -> String {
        let e = self.shown();
        let of_connection = matches!(scope, EscapeScope::Connection { .. });
        let has_command_line = matches!(scope, EscapeScope::Connection { command_line: true });
        let end = match of_connection {
            true => "connection (and any multiplexed sessions)",
            false => "session",
        };
        let lines = [
            (true, format!("{e}?")),
            (true, "Supported escape sequences:".to_owned()),
            (true, format!(" {e}.   - terminate {end}")),
            (true, format!(" {e}B   - send a BREAK to the remote system")),
            (has_command_line, format!(" {e}C   - open a command line")),
            (true, format!(" {e}R   - request rekey")),
            (of_connection, format!(" {e}V/v - decrease/increase verbosity (LogLevel)")),
            (of_connection, format!(" {e}I   - show connection information")),
            (of_connection, format!(" {e}^Z  - suspend lhssh")),
            (true, format!(" {e}#   - list forwarded connections")),
            (
                of_connection,
                format!(" {e}&   - background lhssh (when waiting for connections to terminate)"),
            ),
            (true, format!(" {e}?   - this message")),
            (true, format!(" {e}{e}   - send the escape character by typing it twice")),
            (true, "(Note that escapes are only recognized immediately after newline.)".to_owned()),
        ];
        lines.into_iter().filter(|(permitted, _)| *permitted).map(|(_, line)| line + "\r\n").collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn run(escape: Option<u8>, chunks: &[&[u8]]) -> (Vec<u8>, Vec<Action>) {
        let mut filter = EscapeFilter::new(escape);
        let (mut out, mut actions) = (Vec::new(), Vec::new());
        for chunk in chunks {
            let mut input = *chunk;
            while !input.is_empty() {
                actions.extend(filter.process(&mut input, &mut out));
            }
        }
        (out, actions)
    }

    #[test]
    fn escapes_count_only_at_the_start_of_a_line() {
        assert_eq!(run(Some(b'~'), &[b"~."]), (vec![], vec![Action::Disconnect]));
        assert_eq!(run(Some(b'~'), &[b"a~."]), (b"a~.".to_vec(), vec![]));
        assert_eq!(run(Some(b'~'), &[b"ls\r~", b"?"]), (b"ls\r".to_vec(), vec![Action::Help]));
        assert_eq!(run(Some(b'~'), &[b"\n~\x1a"]), (b"\n".to_vec(), vec![Action::Suspend]));
    }

    #[test]
    fn doubled_and_unknown_escapes_are_sent_as_typed() {
        assert_eq!(run(Some(b'~'), &[b"~~."]), (b"~.".to_vec(), vec![]));
        assert_eq!(run(Some(b'~'), &[b"~x"]), (b"~x".to_vec(), vec![]));
        // After `~\r` the next character starts a line again.
        assert_eq!(run(Some(b'~'), &[b"~\r~#"]), (b"~\r".to_vec(), vec![Action::ListChannels]));
    }

    #[test]
    fn escape_may_follow_an_action_directly() {
        assert_eq!(
            run(Some(b'~'), &[b"~R~B~."]),
            (vec![], vec![Action::Rekey, Action::Break, Action::Disconnect])
        );
    }

    #[test]
    fn without_an_escape_character_everything_passes() {
        assert_eq!(run(None, &[b"~.\r~."]), (b"~.\r~.".to_vec(), vec![]));
        assert_eq!(run(Some(0x1d), &[b"~.\x1d."]).1, vec![]);
        assert_eq!(run(Some(0x1d), &[b"\x1d."]).1, vec![Action::Disconnect]);
    }

    #[test]
    fn help_lists_what_is_permitted() {
        let filter = EscapeFilter::new(Some(b'~'));
        let keys = |scope| -> Vec<String> {
            let text = filter.help(scope);
            let lines = text.lines().filter_map(|line| line.strip_prefix(" ~")?.split_once(" - "));
            lines.map(|(keys, _)| keys.trim_end().to_owned()).collect()
        };
        let connection = |command_line| keys(EscapeScope::Connection { command_line });
        assert_eq!(connection(false), [".", "B", "R", "V/v", "I", "^Z", "#", "&", "?", "~"]);
        assert_eq!(connection(true), [".", "B", "C", "R", "V/v", "I", "^Z", "#", "&", "?", "~"]);
        assert_eq!(keys(EscapeScope::MuxSession), [".", "B", "R", "#", "?", "~"]);
    }

    proptest! {
        #[test]
        fn chunk_borders_do_not_change_the_result(text in proptest::collection::vec(prop_oneof![Just(b'~'), Just(b'\r'), Just(b'.'), Just(b'x')], 0..40), cut in 0usize..40) {
            let cut = cut.min(text.len());
            let whole = run(Some(b'~'), &[&text]);
            let halves = run(Some(b'~'), &[&text[..cut], &text[cut..]]);
            prop_assert_eq!(whole, halves);
        }
    }
}
