//! Effects of the escape sequences in a session's input.

use std::cell::RefCell;
use std::rc::Rc;

use lh_client::escape::{Action, EscapeFilter, EscapeScope};
use lh_client::{Forwards, Logger, connection_information};
use lh_config::client_table::ClientSettings;
use lh_driver::{ChannelCx, ControlCx, InputFilter};
use lh_sys::termios::{RawMode, window_size};
use lh_wire::Writer;
use rustix::termios::Winsize;

use crate::command_prompt::{CommandPrompt, Typed};
use crate::report::show;

/// The character that terminals send for ^D.
const END_OF_TRANSMISSION: u8 = 4;

/// Note: the user ended the connection with `~.`.
pub(crate) struct Disconnect;

/// Note: the user moved the session to the background (`~&`).
pub(crate) struct Background;

/// Note: what an escape sequence asks of the whole connection.
pub(crate) enum EscapeRequest {
    /// Shows addresses and algorithms (`~I`).
    ConnectionInformation,
    /// Executes a line typed after `~C`.
    CommandLine(String),
}

impl EscapeRequest {
    /// Carries the request out, and shows its result.
    pub(crate) fn execute(&self, forwards: &Forwards, cx: &mut ControlCx<'_>) {
        match self {
            Self::ConnectionInformation => {
                for line in connection_information(cx) {
                    show(&format!("  {line}\r\n"));
                }
            }
            Self::CommandLine(line) => crate::command_prompt::execute(line, forwards, cx),
        }
    }
}

/// The terminal of a session, shared with the control, which restores it.
pub(crate) type Terminal = Rc<RefCell<Option<RawMode>>>;

/// Input filter that executes escape sequences.
pub(crate) struct Escapes {
    filter: EscapeFilter,
    terminal: Terminal,
    forwards: Forwards,
    logger: Logger,
    /// `~C` is permitted.
    command_line: bool,
    /// Editor after `~C`.
    prompt: Option<CommandPrompt>,
    /// The input has ended (`~&`).
    ended: bool,
}

impl Escapes {
    pub(crate) fn new(
        settings: &ClientSettings,
        terminal: Terminal,
        forwards: Forwards,
        logger: Logger,
    ) -> Self {
        Self {
            filter: EscapeFilter::new(settings.escape_char.0),
            terminal,
            forwards,
            logger,
            command_line: *settings.enable_escape_commandline,
            prompt: None,
            ended: false,
        }
    }

    fn act(&mut self, action: Action, cx: &mut ChannelCx<'_>) {
        let e = self.filter.shown();
        match action {
            Action::Disconnect => {
                show(&format!("{e}.\r\n"));
                cx.notify(Disconnect);
            }
            Action::Suspend => {
                show(&format!("{e}^Z [suspend lhssh]\r\n"));
                self.suspend(cx);
            }
            Action::Background => {
                show(&format!("{e}& [backgrounded]\r\n"));
                self.ended = true;
                cx.notify(Background);
            }
            Action::ListChannels => {
                show(&format!("{e}#\r\nThe following connections are open:\r\n"));
                show(&format!("  #{} client-session\r\n", cx.id()));
                for (id, text) in self.forwards.describe() {
                    show(&format!("  #{id} {text}\r\n"));
                }
            }
            Action::CommandLine if !self.command_line => show("commandline disabled\r\n"),
            Action::CommandLine => {
                let prompt = CommandPrompt::default();
                show(prompt.greeting());
                self.prompt = Some(prompt);
            }
            Action::Help => {
                let scope = EscapeScope::Connection { command_line: self.command_line };
                show(&self.filter.help(scope));
            }
            Action::Break => {
                show(&format!("{e}B\r\n"));
                // RFC 4335: the server's default length.
                let mut fields = Vec::new();
                fields.put_u32(1000);
                cx.request("break", false, &fields);
            }
            Action::Rekey => cx.request_rekey(),
            Action::LessVerbose => {
                let level = self.logger.level().less();
                self.logger.set_level(level);
                show(&format!("{e}V [LogLevel {}]\r\n", level.word()));
            }
            Action::MoreVerbose => {
                let level = self.logger.level().more();
                self.logger.set_level(level);
                show(&format!("{e}v [LogLevel {}]\r\n", level.word()));
            }
            Action::ConnectionInformation => {
                show(&format!("{e}I\r\n"));
                cx.notify(EscapeRequest::ConnectionInformation);
            }
        }
    }

    /// Stops this process like the shell's ^Z, and re-enters raw mode afterwards.
    fn suspend(&self, cx: &mut ChannelCx<'_>) {
        let terminal = self.terminal.borrow();
        if let Some(terminal) = &*terminal {
            let _ = terminal.leave();
        }
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::TSTP);
        if let Some(terminal) = &*terminal {
            let _ = terminal.reenter();
        }
        // The terminal may have been resized in the meantime.
        send_window_size(cx);
    }
}

impl InputFilter for Escapes {
    fn filter(&mut self, mut input: &[u8], out: &mut Vec<u8>, cx: &mut ChannelCx<'_>) {
        while !input.is_empty() && !self.ended {
            if let Some(prompt) = &mut self.prompt {
                let (echo, typed) = prompt.typed(&mut input);
                show(&echo);
                match typed {
                    Typed::More => {}
                    Typed::Cancelled => self.prompt = None,
                    Typed::Line(line) => {
                        self.prompt = None;
                        cx.notify(EscapeRequest::CommandLine(line));
                    }
                }
            } else if let Some(action) = self.filter.process(&mut input, out) {
                self.act(action, cx);
            }
        }
        if self.ended {
            // Like ssh: a remote program on a terminal sees the end by ^D.
            out.push(END_OF_TRANSMISSION);
        }
    }

    fn ended(&self) -> bool {
        self.ended
    }
}

/// Sends the size of the local terminal to the server (RFC 4254 section 6.7).
pub(crate) fn send_window_size(cx: &mut ChannelCx<'_>) {
    send_size(window_size(rustix::stdio::stdin()), cx);
}

/// Has the session's program draw its screen again. A terminal signals a size only where it differs, so the
/// size in pixels does for a moment.
pub(crate) fn redraw(cx: &mut ChannelCx<'_>) {
    let mut size = window_size(rustix::stdio::stdin());
    size.ws_xpixel ^= 1;
    send_size(size, cx);
    send_window_size(cx);
}

fn send_size(size: Winsize, cx: &mut ChannelCx<'_>) {
    let mut fields = Vec::new();
    for value in [size.ws_col, size.ws_row, size.ws_xpixel, size.ws_ypixel] {
        fields.put_u32(value.into());
    }
    cx.request("window-change", false, &fields);
}
