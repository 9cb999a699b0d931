//! Starts a session channel's program: decides which one, runs it or shows a message in its place, and
//! answers the request.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::rc::Rc;

use lh_driver::ChannelCx;
use lh_sftp_server::Arguments;
use lh_sys::records::Last;
use lh_wire::Writer;

use super::idle::Idle;
use super::messages::Messages;
use super::program::{self, Requested, Terminal};
use super::start_log::log_start;
use super::{SessionChannel, State};
use crate::log::{error, info};
use crate::monitor_ipc::{MonitorRequest, decode_last};
use crate::session::command::{self, Plan, RequestedProgram};
use crate::session::command_usage::{Files, Work};
use crate::session::sftp::Sftp;

impl SessionChannel {
    /// Starts the requested program, or the one that is forced in its place.
    pub(super) fn start(&mut self, wanted: &RequestedProgram, want_reply: bool, cx: &mut ChannelCx<'_>) {
        let shared = Rc::clone(&self.shared);
        shared.programs.title.show();
        let notice = match &shared.modules.problem {
            Some(problem) => Some(format!("{}{problem}\n", shared.modules.said)),
            // With PAM, a module checks for nologin.
            None if shared.modules.decide => None,
            // Inside a chroot, the chroot's file counts, as in sshd.
            None => command::nologin_notice(shared.user.uid),
        };
        if notice.is_some() && !shared.modules.decide {
            info!(shared.requests_log, "User {} not allowed because /etc/nologin exists", shared.user.name);
        }
        let has_terminal = self.terminal.is_some();
        let decision = command::decide(
            wanted,
            &shared.user,
            &shared.settings,
            &shared.options,
            shared.must_change_password,
            has_terminal,
            notice,
        );
        let terminal = self.terminal.as_ref().map(|terminal| terminal.pty.name());
        log_start(&shared, &decision, wanted, self.number, terminal);
        let kind = match wanted {
            RequestedProgram::Shell => "session:shell".to_owned(),
            RequestedProgram::Command(_) => "session:command".to_owned(),
            RequestedProgram::Subsystem(name) => format!("session:subsystem:{name}"),
        };
        self.idle = shared.settings.channel_timeout.of(&kind).map(|limit| Idle { limit, since: cx.now() });
        shared.set_interactive(has_terminal);
        self.forced = decision.forced;
        let said = if shared.programs.has_begun.replace(true) { "" } else { &shared.modules.said };
        let messages = Messages { shared: &shared, said, on_terminal: has_terminal };
        let answer = |cx: &mut ChannelCx<'_>, ok: bool| {
            if want_reply {
                cx.reply(ok);
            }
        };
        match &decision.plan {
            Plan::Nothing => answer(cx, false),
            Plan::Message(text, status) => {
                answer(cx, true);
                if shared.must_change_password {
                    messages.say(command::password_warning(has_terminal), cx);
                }
                messages.say(text, cx);
                self.end(*status, cx);
            }
            Plan::SftpOnly => {
                answer(cx, true);
                cx.send(command::sftp_only(has_terminal).as_bytes());
                self.end(1, cx);
            }
            Plan::InternalSftp(args) => match Arguments::parse(args.iter().map(OsString::from), &shared.user)
            {
                Ok(arguments) => {
                    let own = cx.own_identification();
                    let sftp = Sftp::new(&arguments, Rc::clone(&shared), cx.peer_identification(), &own);
                    self.state = State::Sftp(Box::new(sftp));
                    self.listed.start(wanted, &self.shared);
                    answer(cx, true);
                    if let Ok(file) = shared.user_environment() {
                        messages.tell_about_files(wanted, &file, cx);
                    }
                }
                Err(stop) => {
                    let problem = stop.err.lines().next().unwrap_or("nothing to serve");
                    error!(shared.requests_log, "internal-sftp: {problem}");
                    answer(cx, false);
                }
            },
            Plan::Program { login_shell, .. } => {
                let login = *login_shell && has_terminal;
                let command = match wanted {
                    RequestedProgram::Command(command) if !decision.forced => command.as_bytes().to_vec(),
                    _ => decision.what.clone().into_bytes(),
                };
                let files = if shared.accounts { Files::of(&command) } else { None };
                // For subsystem servers: they may need the client's name to work around its bugs, and the
                // name that the client has seen.
                let lines = match (wanted, cx.peer_identification()) {
                    (RequestedProgram::Subsystem(_), Some(client)) => {
                        let client = client.to_owned();
                        Some([client, cx.own_identification()])
                    }
                    _ => None,
                };
                let user_file = match shared.user_environment() {
                    Ok(file) => file,
                    Err(problem) => {
                        error!(shared.requests_log, "{problem}");
                        answer(cx, true);
                        return self.end(255, cx);
                    }
                };
                let requested = Requested {
                    variables: &self.variables,
                    display: self.display.as_ref(),
                    terminal: self.terminal.take(),
                };
                let line = requested.terminal.as_ref().and_then(Terminal::line);
                match program::run(&shared, &decision, wanted, &user_file, files.as_ref(), lines, requested) {
                    Ok(mut process) => {
                        self.line = line;
                        answer(cx, true);
                        if shared.must_change_password {
                            // Others have seen it before the session alone, as with sshd.
                            if matches!(wanted, RequestedProgram::Shell) {
                                messages.pass_on_said(cx);
                            }
                            messages.say(command::password_warning(has_terminal), cx);
                        }
                        let last = self.record(process.pid());
                        if login {
                            messages.greet(last.as_ref(), cx);
                        } else if *login_shell {
                            messages.pass_on_said(cx);
                        }
                        messages.tell_about_files(wanted, &user_file, cx);
                        process.start(cx);
                        self.state = State::Running(Box::new(process));
                        self.listed.start(wanted, &self.shared);
                        if shared.accounts {
                            self.work = Some(Work::new(command, files, cx.now()));
                        }
                    }
                    Err(problem) => {
                        let shell = shared.user.shell.display();
                        let problem = lh_sys::errno_text(&problem);
                        error!(shared.requests_log, "cannot run {shell}: {problem}");
                        answer(cx, true);
                        messages.say(&format!("{shell}: {problem}\n"), cx);
                        self.end(1, cx);
                    }
                }
            }
        }
    }

    /// Asks the monitor to record the login at the terminal. Returns the last login, if it should be shown.
    fn record(&mut self, pid: u32) -> Option<Last> {
        let line = self.line.as_deref()?.to_owned();
        let mut monitor = self.shared.monitor.borrow_mut();
        let answer = monitor.ask(&MonitorRequest::Arrived { line, pid });
        answer.ok().and_then(|bytes| decode_last(&bytes).ok()).flatten()
    }

    /// Ends a session without a program, with this exit status.
    fn end(&mut self, status: u32, cx: &mut ChannelCx<'_>) {
        let mut fields = Vec::new();
        fields.put_u32(status);
        cx.request("exit-status", false, &fields);
        cx.eof();
        cx.close();
        self.state = State::Over;
    }
}
