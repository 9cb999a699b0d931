//! The source of lines: a terminal with line editing, a batch file, or standard input.
//!
//! Reading blocks, so it has a thread of its own. The commands' thread asks for a line and serves the
//! connection until a byte in a socket announces an event: a line, or a word to be completed.

use std::collections::VecDeque;
use std::io::{BufRead, Write};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, Sender, channel};

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use rustyline::completion::{Completer, Pair};
use rustyline::config::Configurer;
use rustyline::error::ReadlineError;
use rustyline::history::MemHistory;
use rustyline::{CompletionType, Config, Context, Editor, Helper};

/// The prompt, which is also put in front of echoed lines.
pub const PROMPT: &str = "sftp> ";

/// Lines that the up key brings back.
const HISTORY: usize = 100;

/// An event from the reader.
#[derive(Debug)]
pub enum ConsoleEvent {
    /// A line, without its end.
    Line(Vec<u8>),
    /// There are no more lines.
    End,
    /// Asks for completions of the word before the cursor, by `Console::answer`.
    Complete {
        /// The line as far as the cursor.
        line: String,
    },
}

/// Completions of a word.
#[derive(Debug, Default)]
pub struct Completions {
    /// Start of the word in the line, bytes.
    pub start: usize,
    /// Each completion: the text that is shown, and the text that replaces the word.
    pub found: Vec<(String, String)>,
}

/// A message to the reader.
enum ReaderMessage {
    /// Asks for a line; `forget` drops the pasted lines that have not run.
    Next {
        forget: bool,
    },
    Completions(Completions),
}

/// The commands' end of the reader.
pub struct Console {
    tell: Sender<ReaderMessage>,
    events: Receiver<ConsoleEvent>,
    /// Settings of the terminal, restored at the end.
    terminal: Option<Termios>,
}

/// The reader's end: sends events, receives messages.
struct ReaderEnd {
    events: Sender<ConsoleEvent>,
    told: Receiver<ReaderMessage>,
    wake: UnixStream,
}

impl ReaderEnd {
    /// Sends an event. Returns false when the commands' thread has ended.
    fn send(&self, event: ConsoleEvent) -> bool {
        // A socket that is full wakes the commands' thread too.
        self.events.send(event).is_ok() && (&self.wake).write(&[0]).is_ok()
    }
}

impl Console {
    /// Edits lines on the terminal. `wake` is the other end of what the commands' thread watches.
    ///
    /// # Errors
    /// The terminal cannot be used, or no thread can be made.
    pub fn terminal(wake: UnixStream) -> std::io::Result<Self> {
        let terminal = tcgetattr(std::io::stdin()).ok();
        let mut builder = Config::builder()
            .completion_type(CompletionType::List)
            .max_history_size(HISTORY)
            .and_then(|builder| builder.history_ignore_dups(true))
            .map_err(std::io::Error::other)?
            .auto_add_history(true)
            .bracketed_paste(false);
        // Scripts that drive the prompt look for its plain text.
        builder.enable_synchronized_output(false);
        let config = builder.build();
        Self::start(wake, terminal, move |reader| {
            let history = MemHistory::with_config(&config);
            let Ok(mut editor) = Editor::<CompletionHelper, MemHistory>::with_history(config, history) else {
                reader.send(ConsoleEvent::End);
                return;
            };
            editor.set_helper(Some(CompletionHelper(reader)));
            edit(&mut editor);
        })
    }

    /// Reads lines as they come.
    ///
    /// # Errors
    /// No thread can be made.
    pub fn lines(wake: UnixStream, input: Box<dyn BufRead + Send>) -> std::io::Result<Self> {
        Self::start(wake, None, move |reader| read_lines(&reader, input))
    }

    fn start(
        wake: UnixStream,
        terminal: Option<Termios>,
        work: impl FnOnce(ReaderEnd) + Send + 'static,
    ) -> std::io::Result<Self> {
        let (events, received) = channel();
        let (tell, told) = channel();
        std::thread::Builder::new()
            .name("console".to_owned())
            .spawn(move || work(ReaderEnd { events, told, wake }))?;
        Ok(Self { tell, events: received, terminal })
    }

    /// Asks for the next line; it comes as [`ConsoleEvent`]. Where the last one was interrupted, those
    /// that were pasted with it do not run.
    pub fn ask(&self, interrupted: bool) {
        // A reader that has ended has sent `ConsoleEvent::End`.
        let _ = self.tell.send(ReaderMessage::Next { forget: interrupted });
    }

    /// Returns the next event, if there is one.
    pub fn take(&self) -> Option<ConsoleEvent> {
        match self.events.try_recv() {
            Ok(event) => Some(event),
            Err(std::sync::mpsc::TryRecvError::Empty) => None,
            Err(std::sync::mpsc::TryRecvError::Disconnected) => Some(ConsoleEvent::End),
        }
    }

    /// Answers [`ConsoleEvent::Complete`] with the result of `complete`. Meanwhile ^C is a signal, as for a
    /// command: the editor, which has turned that off, waits.
    pub(crate) fn answer(&self, complete: impl FnOnce() -> Completions) {
        let stdin = std::io::stdin();
        let edited = self.terminal.as_ref().and_then(|_| tcgetattr(&stdin).ok());
        if let Some(edited) = &edited {
            let mut modes = edited.clone();
            modes.local_modes |= LocalModes::ISIG;
            let _ = tcsetattr(&stdin, OptionalActions::Now, &modes);
        }
        let completions = complete();
        if let Some(edited) = &edited {
            let _ = tcsetattr(&stdin, OptionalActions::Now, edited);
        }
        let _ = self.tell.send(ReaderMessage::Completions(completions));
    }
}

impl Drop for Console {
    fn drop(&mut self) {
        // The editor may be in the middle of a line, with the terminal in raw mode.
        if let Some(terminal) = &self.terminal {
            let _ = tcsetattr(std::io::stdin(), OptionalActions::Drain, terminal);
        }
    }
}

fn read_lines(reader: &ReaderEnd, mut input: Box<dyn BufRead + Send>) {
    while let Ok(ReaderMessage::Next { .. }) = reader.told.recv() {
        let mut line = Vec::new();
        let event = match input.read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => ConsoleEvent::End,
            Ok(_) => {
                if line.ends_with(b"\n") {
                    line.pop();
                }
                ConsoleEvent::Line(line)
            }
        };
        let ended = matches!(event, ConsoleEvent::End);
        if !reader.send(event) || ended {
            return;
        }
    }
}

/// The lines of text that the editor returns: several, where they were pasted at once.
fn pasted(text: &str) -> VecDeque<Vec<u8>> {
    let mut lines: VecDeque<_> = text.lines().map(|line| line.as_bytes().to_vec()).collect();
    if lines.is_empty() {
        lines.push_back(Vec::new());
    }
    lines
}

fn edit(editor: &mut Editor<CompletionHelper, MemHistory>) {
    // Pasted lines that follow the one that runs.
    let mut lines: VecDeque<Vec<u8>> = VecDeque::new();
    loop {
        let Some(CompletionHelper(reader)) = editor.helper() else { return };
        let Ok(ReaderMessage::Next { forget }) = reader.told.recv() else { return };
        if forget {
            lines.clear();
        }
        let event = loop {
            if let Some(line) = lines.pop_front() {
                // Shown as if it had been typed now, so that its output has a command above it.
                let _ = std::io::stdout().write_all(&[PROMPT.as_bytes(), &line[..], b"\n"].concat());
                break ConsoleEvent::Line(line);
            }
            match editor.readline(PROMPT) {
                Ok(text) => {
                    lines = pasted(&text);
                    break ConsoleEvent::Line(lines.pop_front().unwrap_or_default());
                }
                // ^C gives up the line.
                Err(ReadlineError::Interrupted) => {}
                Err(_) => break ConsoleEvent::End,
            }
        };
        let Some(CompletionHelper(reader)) = editor.helper() else { return };
        let ended = matches!(event, ConsoleEvent::End);
        if !reader.send(event) || ended {
            return;
        }
    }
}

/// Asks the commands' thread for completions.
struct CompletionHelper(ReaderEnd);

impl Completer for CompletionHelper {
    type Candidate = Pair;

    fn complete(&self, line: &str, pos: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<Pair>)> {
        let line = line.get(..pos).unwrap_or_default().to_owned();
        if !self.0.send(ConsoleEvent::Complete { line }) {
            return Ok((pos, Vec::new()));
        }
        match self.0.told.recv() {
            Ok(ReaderMessage::Completions(Completions { start, found })) => {
                let pair = |(display, replacement)| Pair { display, replacement };
                Ok((start, found.into_iter().map(pair).collect()))
            }
            _ => Ok((pos, Vec::new())),
        }
    }
}

impl rustyline::hint::Hinter for CompletionHelper {
    type Hint = String;
}

impl rustyline::highlight::Highlighter for CompletionHelper {}

impl rustyline::validate::Validator for CompletionHelper {}

impl Helper for CompletionHelper {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pasted_text_is_as_many_lines() {
        for (text, lines) in
            [("", &[""][..]), ("ls", &["ls"]), ("pwd\nls\r\n\nlpwd\n", &["pwd", "ls", "", "lpwd"])]
        {
            assert_eq!(pasted(text), lines.iter().map(|line| line.as_bytes().to_vec()).collect::<Vec<_>>());
        }
    }
}
