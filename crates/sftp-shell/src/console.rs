//! Where lines come from: a terminal with line editing, a batch file, or whatever standard input is.
//!
//! Reading blocks, so it has a thread of its own. The commands' thread asks for a line and goes on serving the connection
//! until a byte in a socket says that there is something: a line, or a word to be completed, which it answers.

use std::io::{BufRead, Write};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, Sender, channel};

use rustix::termios::{OptionalActions, Termios};
use rustyline::completion::{Completer, Pair};
use rustyline::config::Configurer;
use rustyline::error::ReadlineError;
use rustyline::history::MemHistory;
use rustyline::{CompletionType, Config, Context, Editor, Helper};

/// The prompt, which is also put in front of echoed lines.
pub const PROMPT: &str = "sftp> ";

/// Lines that the up key brings back.
const HISTORY: usize = 100;

/// What the reader says.
#[derive(Debug)]
pub enum Said {
    /// A line, without its end.
    Line(Vec<u8>),
    /// There is nothing more.
    End,
    /// What may the word before the cursor become? [`Console::answer`] is awaited.
    Complete {
        /// The line as far as the cursor.
        line: String,
    },
}

/// What a word may become.
#[derive(Debug, Default)]
pub struct Completions {
    /// Where the word starts in the line, in bytes.
    pub start: usize,
    /// How each possibility is shown, and what it puts in the word's place.
    pub found: Vec<(String, String)>,
}

/// What the reader is told.
enum Told {
    Next,
    Completions(Completions),
}

/// The commands' end of the reader.
pub struct Console {
    tell: Sender<Told>,
    said: Receiver<Said>,
    /// The terminal as it was, to be left as it was.
    terminal: Option<Termios>,
}

/// How the reader speaks to the commands.
struct Mouth {
    say: Sender<Said>,
    told: Receiver<Told>,
    wake: UnixStream,
}

impl Mouth {
    /// False when nobody listens any more.
    fn say(&self, said: Said) -> bool {
        // A socket too full for a byte wakes anybody.
        self.say.send(said).is_ok() && (&self.wake).write(&[0]).is_ok()
    }
}

impl Console {
    /// Edits lines on the terminal. `wake` is the other end of what the commands' thread watches.
    ///
    /// # Errors
    /// The terminal cannot be used, or no thread can be made.
    pub fn terminal(wake: UnixStream) -> std::io::Result<Self> {
        let terminal = rustix::termios::tcgetattr(std::io::stdin()).ok();
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
        Self::start(wake, terminal, move |mouth| {
            let history = MemHistory::with_config(&config);
            let Ok(mut editor) = Editor::<Asker, MemHistory>::with_history(config, history) else {
                mouth.say(Said::End);
                return;
            };
            editor.set_helper(Some(Asker(mouth)));
            edit(&mut editor);
        })
    }

    /// Reads lines as they come.
    ///
    /// # Errors
    /// No thread can be made.
    pub fn lines(wake: UnixStream, input: Box<dyn BufRead + Send>) -> std::io::Result<Self> {
        Self::start(wake, None, move |mouth| read_lines(&mouth, input))
    }

    fn start(
        wake: UnixStream,
        terminal: Option<Termios>,
        work: impl FnOnce(Mouth) + Send + 'static,
    ) -> std::io::Result<Self> {
        let (say, said) = channel();
        let (tell, told) = channel();
        std::thread::Builder::new()
            .name("console".to_owned())
            .spawn(move || work(Mouth { say, told, wake }))?;
        Ok(Self { tell, said, terminal })
    }

    /// Asks for the next line; it comes as [`Said`].
    pub fn ask(&self) {
        // A reader that has gone has said so.
        let _ = self.tell.send(Told::Next);
    }

    /// What has been said, if anything.
    pub fn take(&self) -> Option<Said> {
        match self.said.try_recv() {
            Ok(said) => Some(said),
            Err(std::sync::mpsc::TryRecvError::Empty) => None,
            Err(std::sync::mpsc::TryRecvError::Disconnected) => Some(Said::End),
        }
    }

    /// Answers [`Said::Complete`].
    pub fn answer(&self, completions: Completions) {
        let _ = self.tell.send(Told::Completions(completions));
    }
}

impl Drop for Console {
    fn drop(&mut self) {
        // The editor may be in the middle of a line, with the terminal in raw mode.
        if let Some(terminal) = &self.terminal {
            let _ = rustix::termios::tcsetattr(std::io::stdin(), OptionalActions::Drain, terminal);
        }
    }
}

fn read_lines(mouth: &Mouth, mut input: Box<dyn BufRead + Send>) {
    while let Ok(Told::Next) = mouth.told.recv() {
        let mut line = Vec::new();
        let said = match input.read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => Said::End,
            Ok(_) => {
                if line.ends_with(b"\n") {
                    line.pop();
                }
                Said::Line(line)
            }
        };
        let ended = matches!(said, Said::End);
        if !mouth.say(said) || ended {
            return;
        }
    }
}

fn edit(editor: &mut Editor<Asker, MemHistory>) {
    loop {
        let Some(Asker(mouth)) = editor.helper() else { return };
        if !matches!(mouth.told.recv(), Ok(Told::Next)) {
            return;
        }
        let said = loop {
            match editor.readline(PROMPT) {
                Ok(line) => break Said::Line(line.into_bytes()),
                // ^C gives up the line.
                Err(ReadlineError::Interrupted) => {}
                Err(_) => break Said::End,
            }
        };
        let Some(Asker(mouth)) = editor.helper() else { return };
        let ended = matches!(said, Said::End);
        if !mouth.say(said) || ended {
            return;
        }
    }
}

/// Asks the commands' thread what a word may become.
struct Asker(Mouth);

impl Completer for Asker {
    type Candidate = Pair;

    fn complete(&self, line: &str, pos: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<Pair>)> {
        let line = line.get(..pos).unwrap_or_default().to_owned();
        if !self.0.say(Said::Complete { line }) {
            return Ok((pos, Vec::new()));
        }
        match self.0.told.recv() {
            Ok(Told::Completions(Completions { start, found })) => {
                let pair = |(display, replacement)| Pair { display, replacement };
                Ok((start, found.into_iter().map(pair).collect()))
            }
            _ => Ok((pos, Vec::new())),
        }
    }
}

impl rustyline::hint::Hinter for Asker {
    type Hint = String;
}

impl rustyline::highlight::Highlighter for Asker {}

impl rustyline::validate::Validator for Asker {}

impl Helper for Asker {}
