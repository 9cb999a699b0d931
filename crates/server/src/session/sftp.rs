//! SFTP inside the session process: no second process, no pipe, file bytes straight into packets.

use std::io::IoSliceMut;
use std::path::PathBuf;

use lh_driver::{ChannelCx, ChannelEvent, ChannelHandler};
use lh_sftp::LocalFs;
use lh_sftp::server::{LogLevel, LogSink, Lookup, Output, Server, ServerOptions};
use lh_sys::users::{self, User};
use lh_wire::Writer;

use crate::log::{Level, Log, error};

/// sftp-server's exit status when the client does not speak SFTP.
const BAD_CLIENT: u32 = 11;

/// The handler of a session channel that serves SFTP.
pub(super) struct Sftp {
    server: Server,
    log: Log,
    eof: bool,
    ended: bool,
}

/// What the arguments of `internal-sftp` say (sftp-server(8)).
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Arguments {
    start: Option<PathBuf>,
    umask: Option<u32>,
    read_only: bool,
    allow: Option<Vec<String>>,
    deny: Vec<String>,
    level: Option<Level>,
}

impl Arguments {
    /// Reads them; the error is for the log.
    pub(super) fn parse(args: &[String], user: &User) -> Result<Self, String> {
        let mut parsed = Self::default();
        let mut args = args.iter();
        let names = |list: &str| list.split(',').map(str::to_owned).collect::<Vec<_>>();
        while let Some(arg) = args.next() {
            let mut chars = arg.chars();
            let (Some('-'), Some(flag)) = (chars.next(), chars.next()) else {
                return Err(format!("internal-sftp: unexpected argument {arg:?}"));
            };
            let attached = chars.as_str();
            let mut value = || match attached {
                "" => args.next().cloned().ok_or_else(|| format!("internal-sftp: -{flag} needs a value")),
                attached => Ok(attached.to_owned()),
            };
            match flag {
                'R' => parsed.read_only = true,
                // Our log goes where the server's goes; a facility of its own is for syslog.
                'e' | 'h' | 'c' => {}
                'f' => drop(value()?),
                'l' => parsed.level = Level::by_name(&value()?),
                'd' => {
                    let tokens = lh_config::token::Tokens::new()
                        .with('d', user.home.to_string_lossy())
                        .with('h', user.home.to_string_lossy())
                        .with('u', user.name.as_str());
                    parsed.start = Some(tokens.expand(&value()?)?.into());
                }
                'u' => {
                    let text = value()?;
                    let mask = u32::from_str_radix(&text, 8).ok().filter(|mask| *mask <= 0o777);
                    parsed.umask = Some(mask.ok_or_else(|| format!("Invalid umask \"{text}\""))?);
                }
                'p' => parsed.allow = Some(names(&value()?)),
                'P' => parsed.deny = names(&value()?),
                other => return Err(format!("internal-sftp: unknown option -{other}")),
            }
        }
        Ok(parsed)
    }
}

/// Names from the name service switch.
struct Names {
    home: PathBuf,
}

impl Lookup for Names {
    fn user_name(&mut self, uid: u32) -> Option<String> {
        users::by_uid(uid).ok().flatten().map(|user| user.name)
    }

    fn group_name(&mut self, gid: u32) -> Option<String> {
        users::group_by_gid(gid).ok().flatten().map(|group| group.name)
    }

    fn home(&mut self, user: &[u8]) -> Option<Vec<u8>> {
        use std::os::unix::ffi::{OsStrExt, OsStringExt};
        if user.is_empty() {
            return Some(self.home.clone().into_os_string().into_vec());
        }
        let user = users::by_name(std::ffi::OsStr::from_bytes(user)).ok().flatten()?;
        Some(user.home.into_os_string().into_vec())
    }

    fn now(&mut self) -> i64 {
        lh_sys::time::now_unix()
    }

    fn utc_offset(&mut self, time: i64) -> i32 {
        lh_sys::time::utc_offset(time)
    }
}

/// The engine's lines go to the server's log. As OpenSSH, only errors unless `-l` asks for more.
struct Lines {
    log: Log,
    level: Level,
}

const fn level_of(level: LogLevel) -> Level {
    match level {
        LogLevel::Error => Level::Error,
        LogLevel::Info => Level::Info,
        LogLevel::Verbose => Level::Verbose,
        LogLevel::Debug => Level::Debug1,
    }
}

impl LogSink for Lines {
    fn level(&self) -> LogLevel {
        match self.level {
            Level::Quiet | Level::Fatal | Level::Error => LogLevel::Error,
            Level::Info => LogLevel::Info,
            Level::Verbose => LogLevel::Verbose,
            _ => LogLevel::Debug,
        }
    }

    fn line(&mut self, level: LogLevel, line: std::fmt::Arguments<'_>) {
        if level_of(level) <= self.level {
            self.log.line(level_of(level), line);
        }
    }
}

/// The channel as the engine's output.
struct Channel<'c, 'a>(&'c mut ChannelCx<'a>);

impl Output for Channel<'_, '_> {
    fn budget(&mut self) -> usize {
        // 0 while the queue is long, the turn's share is used up or keys are exchanged; otherwise all that the
        // peer's window takes, so that a whole reply goes in place.
        if self.0.budget() == 0 {
            return 0;
        }
        let id = self.0.id();
        self.0.control().connection().send_budget(id)
    }

    fn send(&mut self, data: &[u8]) -> usize {
        self.0.send(data)
    }

    fn send_in_place(&mut self, want: usize, fill: &mut dyn FnMut(&mut [IoSliceMut<'_>]) -> usize) -> usize {
        self.0.send_in_place(want, fill)
    }
}

impl Sftp {
    pub(super) fn new(arguments: Arguments, user: &User, address: String, log: Log) -> Self {
        let mut fs = LocalFs::new(arguments.start.unwrap_or_else(|| user.home.clone()));
        if let Some(umask) = arguments.umask {
            fs = fs.with_umask(umask);
        }
        let options = ServerOptions {
            read_only: arguments.read_only,
            allow: arguments.allow,
            deny: arguments.deny,
            user: user.name.clone(),
            address,
            max_handles: None,
        };
        let level = arguments.level.unwrap_or(Level::Error);
        let lines = Lines { log: log.clone(), level };
        let names = Names { home: user.home.clone() };
        let server = Server::new(Box::new(fs), Box::new(names), Box::new(lines), options);
        Self { server, log, eof: false, ended: false }
    }

    fn serve(&mut self, cx: &mut ChannelCx<'_>) {
        if self.ended {
            return;
        }
        match self.server.poll(&mut Channel(cx)) {
            Ok(progress) => {
                cx.consumed(progress.consumed);
                if progress.more {
                    cx.want_writable();
                }
                if self.eof && !progress.more && self.server.is_idle() {
                    self.end(0, cx);
                }
            }
            Err(problem) => {
                error!(self.log, "sftp: {problem}");
                self.end(BAD_CLIENT, cx);
            }
        }
    }

    fn end(&mut self, status: u32, cx: &mut ChannelCx<'_>) {
        self.ended = true;
        self.server.close();
        let mut fields = Vec::new();
        fields.put_u32(status);
        cx.request("exit-status", false, &fields);
        cx.eof();
        cx.close();
    }
}

impl ChannelHandler for Sftp {
    fn on_event(&mut self, event: ChannelEvent, cx: &mut ChannelCx<'_>) {
        match event {
            ChannelEvent::Data { ext: None, data } if !self.ended => self.server.input(data),
            ChannelEvent::Data { data, .. } => cx.consumed(data.len()),
            ChannelEvent::Eof => self.eof = true,
            ChannelEvent::Closed => {
                self.ended = true;
                self.server.close();
            }
            ChannelEvent::Request { want_reply: true, .. } => cx.reply(false),
            _ => {}
        }
    }

    fn on_batch_end(&mut self, cx: &mut ChannelCx<'_>) {
        self.serve(cx);
    }

    fn on_writable(&mut self, cx: &mut ChannelCx<'_>) {
        self.serve(cx);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(args: &[&str]) -> Result<Arguments, String> {
        let user = users::by_uid(0).unwrap().unwrap();
        Arguments::parse(&args.iter().map(|arg| (*arg).to_owned()).collect::<Vec<_>>(), &user)
    }

    #[test]
    fn flags_of_sftp_server() {
        let all =
            parsed(&["-R", "-f", "AUTH", "-lINFO", "-d", "%d/x", "-u", "027", "-P", "remove,rmdir"]).unwrap();
        assert!(all.read_only);
        assert_eq!(all.level, Some(Level::Info));
        assert_eq!(all.start, Some(PathBuf::from("/root/x")));
        assert_eq!(all.umask, Some(0o027));
        assert_eq!(all.deny, ["remove", "rmdir"]);
        assert_eq!(parsed(&[]).unwrap(), Arguments::default());
        for bad in [&["-Z"][..], &["x"], &["-u", "999"], &["-d"], &["-u", "01000"]] {
            assert!(parsed(bad).is_err(), "{bad:?}");
        }
    }
}
