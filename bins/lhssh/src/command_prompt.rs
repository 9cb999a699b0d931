//! `~C`: a command line typed into the session, which adds and cancels forwards.
//!
//! The session continues meanwhile: this is a one-line editor for input from the terminal in raw mode.

use lh_client::Forwards;
use lh_client::forward::ForwardError;
use lh_config::forward::Forward;
use lh_driver::ControlCx;

use crate::report::show;

/// Upper limit of the line, bytes.
const LINE_MAX: usize = 1024;

/// Editor of the command line.
#[derive(Debug, Default)]
pub(crate) struct CommandPrompt {
    line: String,
}

/// Result of typed input.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Typed {
    /// The line is not complete.
    More,
    /// The user cancelled the line.
    Cancelled,
    /// The complete line.
    Line(String),
}

impl CommandPrompt {
    /// The prompt.
    pub(crate) const fn greeting(&self) -> &'static str {
        "\r\nssh> "
    }

    /// Consumes bytes from the front of `input`; returns the text to show for them.
    pub(crate) fn typed(&mut self, input: &mut &[u8]) -> (String, Typed) {
        let mut echo = String::new();
        while let [byte, rest @ ..] = *input {
            *input = rest;
            match byte {
                b'\r' | b'\n' => {
                    echo.push_str("\r\n");
                    return (echo, Typed::Line(std::mem::take(&mut self.line)));
                }
                // ^C, ^D, ^G, escape.
                0x03 | 0x04 | 0x07 | 0x1b => {
                    echo.push_str("\r\n");
                    return (echo, Typed::Cancelled);
                }
                0x08 | 0x7f => {
                    let erased = self.line.pop().is_some();
                    echo.push_str(if erased { "\x08 \x08" } else { "" });
                }
                // ^U
                0x15 => {
                    echo.push_str(&"\x08 \x08".repeat(self.line.len()));
                    self.line.clear();
                }
                b' '..=b'~' if self.line.len() < LINE_MAX => {
                    self.line.push(char::from(*byte));
                    echo.push(char::from(*byte));
                }
                _ => {}
            }
        }
        (echo, Typed::More)
    }
}

/// A parsed command line.
#[derive(Debug, PartialEq, Eq)]
enum Command {
    Nothing,
    Help,
    AddLocal(Forward),
    AddRemote(Forward),
    CancelLocal(Forward),
    CancelRemote(Forward),
    Bad(&'static str),
}

impl Command {
    fn parse(line: &str) -> Self {
        const BAD: Command = Command::Bad("Bad forwarding specification.");
        let line = line.trim_start();
        let Some(line) = line.strip_prefix('-') else {
            return match line.chars().next() {
                None => Self::Nothing,
                Some('?' | 'h' | 'H') => Self::Help,
                Some(_) => Self::Bad("Invalid command."),
            };
        };
        let (cancel, line) = match line.strip_prefix('K') {
            Some(rest) => (true, rest),
            None => (false, line),
        };
        let (letter, spec) = match line.split_at_checked(1) {
            Some((letter, spec)) => (letter, spec.trim()),
            None => return Self::Bad("Invalid command."),
        };
        match (letter, cancel) {
            ("h" | "?" | "H", false) => Self::Help,
            ("L", false) => Forward::parse(spec, false).map_or(BAD, Self::AddLocal),
            ("D", false) => Forward::parse_dynamic(spec).map_or(BAD, Self::AddLocal),
            ("R", false) => Forward::parse(spec, true).map_or(BAD, Self::AddRemote),
            // A cancelled forward is identified by its listening address.
            ("L" | "D", true) => Forward::parse_dynamic(spec)
                .or_else(|| Forward::parse(spec, true).filter(|forward| forward.connect.is_none()))
                .map_or(BAD, Self::CancelLocal),
            ("R", true) => Forward::parse(spec, true).map_or(BAD, Self::CancelRemote),
            _ => Self::Bad("Invalid command."),
        }
    }
}

const HELP: &str = "Commands:\r\n\
\x20     -L[bind_address:]port:host:hostport    Request local forward\r\n\
\x20     -R[bind_address:]port:host:hostport    Request remote forward\r\n\
\x20     -D[bind_address:]port                  Request dynamic forward\r\n\
\x20     -KL[bind_address:]port                 Cancel local forward\r\n\
\x20     -KR[bind_address:]port                 Cancel remote forward\r\n\
\x20     -KD[bind_address:]port                 Cancel dynamic forward\r\n";

/// Executes the line and shows its result.
pub(crate) fn execute(line: &str, forwards: &Forwards, cx: &mut ControlCx<'_>) {
    let show_result = |ok: bool| {
        show(if ok { "Canceled forwarding.\r\n" } else { "Unknown port forwarding.\r\n" });
    };
    match Command::parse(line) {
        Command::Nothing => {}
        Command::Help => show(HELP),
        Command::Bad(text) => show(&format!("{text}\r\n")),
        Command::CancelLocal(forward) => show_result(forwards.cancel_listener(&forward.listen, cx)),
        Command::CancelRemote(forward) => show_result(forwards.cancel_remote(&forward, cx)),
        Command::AddLocal(forward) => forwards.add_local(
            &forward,
            cx,
            Box::new(|result, _| {
                show(if result.is_ok() { "Forwarding port.\r\n" } else { "Port forwarding failed.\r\n" });
            }),
        ),
        Command::AddRemote(forward) => {
            show("Forwarding port.\r\n");
            let asked = forward.clone();
            let done = move |result: Result<u16, ForwardError>, _: &mut ControlCx<'_>| match result {
                Ok(port) => {
                    if let Some(text) = lh_client::forward::allocated(&asked, port) {
                        show(&format!("{text}\r\n"));
                    }
                }
                Err(text) => show(&format!("Warning: {text}\r\n")),
            };
            forwards.add_remote(&forward, cx, Box::new(done));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_is_edited_until_its_end() {
        let mut prompt = CommandPrompt::default();
        let mut input = &b"-L99\x7f9:h:\x01"[..];
        assert_eq!(prompt.typed(&mut input).1, Typed::More);
        let mut input = &b"80\rls\r"[..];
        let (echo, typed) = prompt.typed(&mut input);
        assert_eq!((echo.as_str(), typed), ("80\r\n", Typed::Line("-L99:h:80".to_owned())));
        assert_eq!(input, b"ls\r", "later bytes belong to the session");
        let mut prompt = CommandPrompt::default();
        assert_eq!(prompt.typed(&mut &b"-D\x15x\x03"[..]).1, Typed::Cancelled);
    }

    #[test]
    fn commands() {
        assert_eq!(Command::parse(""), Command::Nothing);
        assert_eq!(Command::parse("?"), Command::Help);
        let forward = Forward::parse("8080:h:80", false).unwrap();
        assert_eq!(Command::parse(" -L 8080:h:80"), Command::AddLocal(forward));
        let socks = Forward::parse_dynamic("1080").unwrap();
        assert_eq!(Command::parse("-D1080"), Command::AddLocal(socks.clone()));
        assert_eq!(Command::parse("-KD1080"), Command::CancelLocal(socks));
        let back = Forward::parse("/run/s", true).unwrap();
        assert_eq!(Command::parse("-KR/run/s"), Command::CancelRemote(back));
        assert_eq!(Command::parse("-L8080"), Command::Bad("Bad forwarding specification."));
        assert_eq!(Command::parse("ls"), Command::Bad("Invalid command."));
        assert_eq!(Command::parse("-"), Command::Bad("Invalid command."));
    }
}
