//! `lhsftp-server`: SFTP on standard input and output, with the flags of sftp-server(8), for any SSH server's
//! `Subsystem`.

use std::io;
use std::process::ExitCode;

use lh_sftp_server::{Arguments, CLIENT_IDENTIFICATION, Lines, SERVER_IDENTIFICATION, serve};
use lh_sys::syslog::Facility;

/// Exit status when the client cannot be spoken with, as sftp-server's.
const FAILURE: u8 = 1;

/// The whole program: reads the command line of the process and returns its exit status.
pub fn main() -> ExitCode {
    // A file opened later must not get the number of a standard descriptor that was closed.
    let _ = lh_sys::fd::sanitize_stdio();
    // Who may transfer files only must not run code by writing to `/proc/self/mem`.
    if let Err(error) = lh_sys::dumps::forbid() {
        eprintln!("lhsftp-server: cannot close this process's memory to others: {error}");
        return ExitCode::from(FAILURE);
    }
    lh_sys::signals::ignore_write_signals();
    ExitCode::from(start())
}

fn start() -> u8 {
    let user = match lh_sys::users::current() {
        Ok(Some(user)) => user,
        Ok(None) | Err(_) => {
            eprintln!("No user found for uid {}", rustix::process::getuid().as_raw());
            return FAILURE;
        }
    };
    let arguments = match Arguments::parse(std::env::args_os().skip(1), &user) {
        Ok(arguments) => arguments,
        Err(stop) => return stop.print(),
    };
    let log_level = arguments.log_level;
    let lines = if arguments.stderr {
        Lines::stderr(log_level)
    } else {
        Lines::syslog(log_level, arguments.facility.unwrap_or(Facility::AUTH), "sftp-server")
    };
    // The SSH server sets the client's address: `address port address port`.
    let connection = std::env::var("SSH_CONNECTION").unwrap_or_default();
    let address = connection.split(' ').next().filter(|address| !address.is_empty()).unwrap_or("UNKNOWN");
    let directory = std::env::current_dir().unwrap_or_else(|_| "/".into());
    let mut server = arguments.server(&user, address.to_owned(), directory, Box::new(lines));
    let [client, own] = [CLIENT_IDENTIFICATION, SERVER_IDENTIFICATION].map(|name| std::env::var(name).ok());
    server.set_client(client.as_deref(), own.as_deref());
    let served = lh_sys::fd::take_stdin_stdout().and_then(|(from, to)| serve(server, &from, &to));
    match served {
        Ok(status) => status,
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => FAILURE,
        Err(error) => {
            eprintln!("lhsftp-server: {error}");
            FAILURE
        }
    }
}
