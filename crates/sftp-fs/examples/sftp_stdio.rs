//! An SFTP server on stdin and stdout, in sftp-server's place: `sftp -D target/debug/examples/sftp_stdio`.
//!
//! It accepts these flags of sftp-server: `-d directory`, `-u umask`, `-R`, `-P denied`, `-p allowed`, `-e`
//! (log to stderr). It serves tests, and is the shortest complete owner of a [`Server`].

use std::fmt;
use std::io::{Read, Write};

use lh_sftp::server::{FileEvent, LogLevel, LogSink, NoLog, Server, ServerOptions};
use lh_sftp_fs::{LocalFs, SystemFiles};

struct Stderr;

impl LogSink for Stderr {
    fn level(&self) -> LogLevel {
        LogLevel::Verbose
    }
    fn line(&mut self, _level: LogLevel, line: fmt::Arguments<'_>) {
        eprintln!("{line}");
    }
    fn file_closed(&mut self, event: &FileEvent) {
        eprintln!("{event:?}");
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut options =
        ServerOptions { user: "example".into(), address: "UNKNOWN".into(), ..Default::default() };
    let mut start = std::env::current_dir()?;
    let mut umask = None;
    let mut log: Box<dyn LogSink> = Box::new(NoLog);
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or(format!("{arg} needs a value"));
        match arg.as_str() {
            "-R" => options.read_only = true,
            "-e" => log = Box::new(Stderr),
            "-d" => start = value()?.into(),
            "-u" => umask = Some(u32::from_str_radix(&value()?, 8)?),
            "-P" => options.deny = value()?.split(',').map(str::to_owned).collect(),
            "-p" => options.allow = Some(value()?.split(',').map(str::to_owned).collect()),
            _ => return Err(format!("unknown flag {arg}").into()),
        }
    }
    if let Some(name) = options.unknown_request() {
        return Err(format!("unknown request {name}").into());
    }
    let mut fs = LocalFs::new(start);
    if let Some(umask) = umask {
        fs = fs.with_umask(umask);
    }
    let mut server = Server::new(Box::new(fs), Box::new(SystemFiles::new()), log, options);
    let (mut stdin, mut stdout) = (std::io::stdin().lock(), std::io::stdout().lock());
    let mut buffer = vec![0; 256 * 1024];
    let mut replies = Vec::new();
    loop {
        let n = stdin.read(&mut buffer)?;
        if n == 0 {
            return Ok(());
        }
        server.input(bytes::Bytes::copy_from_slice(buffer.get(..n).unwrap_or_default()));
        loop {
            let progress = match server.poll(&mut replies) {
                Ok(progress) => progress,
                Err(error) => {
                    eprintln!("{error}");
                    std::process::exit(11);
                }
            };
            stdout.write_all(&replies)?;
            stdout.flush()?;
            replies.clear();
            if !progress.more {
                break;
            }
        }
    }
}
