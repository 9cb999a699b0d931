//! Command-line flags of sftp-server.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use lh_cli::flags::{Parsed, SFTP_SERVER, Stop};
use lh_config::token::Tokens;
use lh_sftp::server::{LogLevel, LogSink, Lookup, Server, ServerOptions, request_table};
use lh_sftp_fs::LocalFs;
use lh_sys::syslog::Facility;
use lh_sys::users::User;

use crate::HostNames;

/// Result that ends the program: requested information, or an error.
pub type Stopped = Stop;

/// Parsed flags.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arguments {
    /// `-d`: initial directory of the client.
    pub start: Option<PathBuf>,
    /// `-u`: umask.
    pub umask: Option<u32>,
    /// `-R`: read-only.
    pub read_only: bool,
    /// `-p`: allowed requests.
    pub allow: Option<Vec<String>>,
    /// `-P`: denied requests.
    pub deny: Vec<String>,
    /// `-l`: log level.
    pub log_level: LogLevel,
    /// `-f`: syslog facility, if given.
    pub facility: Option<Facility>,
    /// `-e`: log to standard error.
    pub stderr: bool,
}

impl Arguments {
    /// Parses the flags of a server for `user`.
    ///
    /// # Errors
    /// The text to print and the exit status; with `-Q` and `-h` it is the requested information.
    pub fn parse(words: impl IntoIterator<Item = OsString>, user: &User) -> Result<Self, Stopped> {
        let mut parsed = SFTP_SERVER.parse(words)?;
        // A login shell is called with `-c COMMAND`. The command is ignored.
        if parsed.has('c') {
            parsed.operands.clear();
        }
        if parsed.has('h') || !parsed.operands.is_empty() {
            return Err(Stop {
                out: String::new(),
                err: SFTP_SERVER.usage(),
                status: SFTP_SERVER.usage_status,
            });
        }
        if let Some(feature) = parsed.text('Q') {
            return Err(features(&feature));
        }
        let wrong = |text: String| Stop { out: String::new(), err: format!("{text}\n"), status: 1 };
        let umask = match parsed.text('u') {
            None => None,
            Some(text) => {
                let mask = u32::from_str_radix(&text, 8).ok().filter(|mask| *mask <= 0o777);
                Some(mask.ok_or_else(|| wrong(format!("Invalid umask \"{text}\"")))?)
            }
        };
        let log_level = match parsed.text('l') {
            None => LogLevel::Error,
            Some(name) => {
                LogLevel::from_word(&name).ok_or_else(|| wrong(format!("Invalid log level \"{name}\"")))?
            }
        };
        // Two lists are an error: using either one might permit too much.
        for (flag, kind) in [('p', "Permitted"), ('P', "Refused")] {
            if parsed.count(flag) > 1 {
                return Err(wrong(format!("{kind} requests already set")));
            }
        }
        let facility = match parsed.text('f') {
            None => None,
            Some(name) => Some(
                Facility::by_name(&name).ok_or_else(|| wrong(format!("Invalid log facility \"{name}\"")))?,
            ),
        };
        let start = match parsed.text('d') {
            None => None,
            Some(text) => {
                let tokens = Tokens::new()
                    .with('d', user.home.to_string_lossy())
                    .with('h', user.home.to_string_lossy())
                    .with('u', user.name.as_str());
                Some(tokens.expand(&text).map_err(|why| wrong(why.to_string()))?.into())
            }
        };
        Ok(Self {
            start,
            umask,
            read_only: parsed.has('R'),
            allow: names(&parsed, 'p'),
            deny: names(&parsed, 'P').unwrap_or_default(),
            log_level,
            facility,
            stderr: parsed.has('e'),
        })
    }

    /// Returns the initial directory of the client: that of `-d` if it is one, else `directory`.
    pub fn start_in(&self, directory: &Path) -> PathBuf {
        let start = self.start.as_ref().map(|start| directory.join(start));
        start.filter(|start| start.is_dir()).unwrap_or_else(|| directory.to_owned())
    }

    /// Creates a server for `user`, whose client connects from `address` and starts in `directory` unless
    /// `-d` specifies another. Problems with the flags that only the file system reveals are logged.
    pub fn server(
        &self,
        user: &User,
        address: String,
        directory: PathBuf,
        mut log: Box<dyn LogSink>,
    ) -> Server {
        if let Some(start) = self.start.as_ref().filter(|start| !directory.join(start).is_dir()) {
            let text = format_args!("chdir to \"{}\" failed: not a directory", start.display()).to_string();
            log.line(LogLevel::Error, format_args!("{text}"));
        }
        let mut fs = LocalFs::new(self.start_in(&directory));
        if let Some(umask) = self.umask {
            fs = fs.with_umask(umask);
        }
        let options = ServerOptions {
            read_only: self.read_only,
            allow: self.allow.clone(),
            deny: self.deny.clone(),
            user: user.name.clone(),
            address,
            max_handles: None,
        };
        if let Some(name) = options.unknown_request() {
            let text = format!("unknown request \"{name}\" in the list of requests");
            log.line(LogLevel::Error, format_args!("{text}"));
        }
        let names: Box<dyn Lookup> = Box::new(HostNames::new(user));
        Server::new(Box::new(fs), names, log, options)
    }
}

/// Returns a list of request names.
fn names(parsed: &Parsed, flag: char) -> Option<Vec<String>> {
    let list = parsed.text(flag)?;
    Some(list.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect())
}

fn features(name: &str) -> Stop {
    if !name.eq_ignore_ascii_case("requests") {
        return Stop { out: String::new(), err: "Invalid query type\n".to_owned(), status: 1 };
    }
    let out = request_table().iter().map(|info| format!("{}\n", info.name)).collect();
    Stop { out, err: String::new(), status: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &[&str]) -> Result<Arguments, Stopped> {
        let user = lh_sys::users::by_uid(0).unwrap().unwrap();
        Arguments::parse(words.iter().map(OsString::from), &user)
    }

    #[test]
    fn a_login_shell_ignores_its_command() {
        assert!(parsed(&["-c", "/usr/lib/openssh/sftp-server"]).is_ok());
        assert!(parsed(&["-c"]).is_ok());
        assert!(parsed(&["/usr/lib/openssh/sftp-server"]).is_err());
    }

    #[test]
    fn flags_are_parsed() {
        let words = ["-Re", "-f", "LOCAL3", "-lINFO", "-d", "%d/x", "-u", "027", "-P", "remove,rmdir", "-c"];
        let all = parsed(&words).expect("valid flags");
        assert!(all.read_only && all.stderr);
        assert_eq!(all.log_level, LogLevel::Info);
        assert_eq!(all.facility, Facility::by_name("local3"));
        assert_eq!(all.start, Some(PathBuf::from("/root/x")));
        assert_eq!((all.umask, all.allow), (Some(0o027), None));
        assert_eq!(all.deny, ["remove", "rmdir"]);
        let none = parsed(&[]).expect("valid flags");
        assert!(!none.stderr && none.facility.is_none() && none.log_level == LogLevel::Error);
    }

    #[test]
    fn invalid_flags_and_queries_stop() {
        let words = [
            &["-Z"][..],
            &["x"],
            &["-u", "999"],
            &["-d"],
            &["-u", "01000"],
            &["-l", "loud"],
            &["-f", "x"],
            &["-P", "remove", "-P", "rmdir"],
            &["-p", "open,read", "-p", "remove"],
            &["-h"],
        ];
        for bad in words {
            assert_eq!(parsed(bad).expect_err("an error").status, 1, "{bad:?}");
        }
        let stop = parsed(&["-Q", "requests"]).expect_err("an answer");
        assert_eq!(stop.status, 0);
        assert!(stop.out.starts_with("open\nclose\nread\n") && stop.out.contains("posix-rename\n"));
        assert_eq!(parsed(&["-Q", "x"]).expect_err("an error").err, "Invalid query type\n");
    }
}
