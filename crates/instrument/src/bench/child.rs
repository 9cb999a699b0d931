//! The commands of client programs, each as a user would start it, and what they measure.

use std::fs;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use lh_config::names::bracketed;

use super::client::Client;
use super::keeper::{FILE_LEN, FILES, MANY};
use super::process::{Guard, children_cpu, finish, kill, no_pipes, piped, spawn, waiting};
use super::results::Plan;
use super::row::Unit;
use crate::command::sh;
use crate::far_end::FarEnd;
use crate::fault::Fault;
use crate::flow::Direction;
use crate::task::random;

/// Shortest and longest file of a copy, bytes.
const FILE_LENS: [f64; 2] = [1e6, 256e6];
/// How often the length of the file is tried, how many times longer than the file before it may become, and
/// how many times longer it may become without another try.
const LENGTH_TRIES: u32 = 2;
const LONGER: usize = 16;
const NEAR: usize = 4;
/// Shortest time for the data of a copy, seconds: the rest of the client's time varies as much.
const LEAST_COPY: f64 = 0.02;
/// Longest time of a client, and what it has where the time of the run is nearly over.
const LIMIT: Duration = Duration::from_secs(30);
const LEAST_LIMIT: Duration = Duration::from_secs(1);

/// A measured figure: column, unit, value.
pub(super) type Figure = (&'static str, Unit, f64);

/// Common settings of jobs: command lines, directories and times.
pub(super) struct Bench<'a> {
    pub(super) plan: &'a Plan,
    /// A directory of this machine.
    pub(super) here: &'a Path,
    /// The directory of the keeper.
    pub(super) there: &'a str,
    pub(super) slice: Duration,
    /// The server runs commands, and not only SFTP.
    pub(super) runs_commands: bool,
    /// Length of the file that is copied, bytes.
    pub(super) file_len: usize,
    pub(super) serial: std::cell::Cell<usize>,
    /// The TCP end at the server, where there is one.
    pub(super) far: Option<&'a FarEnd>,
    /// The plan of a run to the jump host alone, where there is one.
    pub(super) jump_host: Option<&'a Plan>,
    /// The end of the measured rounds.
    pub(super) ends: Instant,
}

impl Bench<'_> {
    /// Makes the local files.
    ///
    /// # Errors
    /// They cannot be written.
    pub(super) fn prepare(&self) -> std::io::Result<()> {
        let small = self.here.join("small");
        fs::create_dir_all(&small)?;
        let data = random(FILE_LEN);
        for index in 0..FILES {
            fs::write(small.join(format!("file{index}")), &data)?;
        }
        self.write_file()
    }

    fn write_file(&self) -> std::io::Result<()> {
        fs::write(self.here.join("file"), random(self.file_len))
    }

    /// Finds the length of a file that takes about a slice of time, with uploads of shorter files by this
    /// client. `login` is the part of an upload that is none of the data's; `stop` says that the user wants
    /// an end.
    ///
    /// # Errors
    /// The local file cannot be written.
    pub(super) fn find_file_len(
        &mut self,
        client: &Client,
        login: Duration,
        stop: &dyn Fn() -> bool,
    ) -> std::io::Result<()> {
        let Some(scp) = &client.scp else { return Ok(()) };
        for _ in 0..LENGTH_TRIES {
            if stop() {
                break;
            }
            let (from, to) = (self.file(), self.remote("file"));
            // The figures of the run will say what is wrong.
            let Ok((wall, _)) = self.copy(scp, &["-q"], &from, &to, &[]) else { break };
            let rate = self.file_len as f64 / (wall - login.as_secs_f64()).max(LEAST_COPY);
            let wanted = file_len(rate, self.slice);
            let is_near = wanted <= self.file_len.saturating_mul(NEAR);
            self.file_len = wanted.min(self.file_len.saturating_mul(LONGER));
            self.write_file()?;
            if is_near {
                break;
            }
        }
        Ok(())
    }

    /// Time after which a client is stopped.
    pub(super) fn limit(&self) -> Duration {
        self.ends.saturating_duration_since(Instant::now()).clamp(LEAST_LIMIT, LIMIT)
    }

    pub(super) fn serial(&self) -> usize {
        self.serial.set(self.serial.get() + 1);
        self.serial.get()
    }

    pub(super) fn local(&self, name: &str) -> String {
        self.here.join(name).display().to_string()
    }

    fn file(&self) -> String {
        self.local("file")
    }

    pub(super) fn remote(&self, name: &str) -> String {
        at_host(&self.plan.destination, &format!("{}/{name}", self.there))
    }

    pub(super) fn command(&self, program: &Path) -> Command {
        self.command_with(program, &[])
    }

    /// Returns a client's command with these keywords before those of the user.
    fn command_with(&self, program: &Path, keywords: &[(&'static str, String)]) -> Command {
        let mut command = Command::new(program);
        command.args(keywords.iter().flat_map(|(name, value)| ["-o".to_owned(), format!("{name}={value}")]));
        command.args(["-o", "BatchMode=yes", "-o", "ControlMaster=no", "-o", "ControlPath=none"]);
        command
            .args(&self.plan.client_words)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        command
    }

    pub(super) fn ssh(&self, program: &Path, script: &str, more: &[String]) -> Command {
        let mut command = self.command(program);
        command.args(more).arg(&self.plan.destination).arg(String::from_utf8_lossy(&sh(script)).into_owned());
        command
    }

    /// Runs a command to its end; returns wall time and processor time, seconds.
    fn timed(&self, command: &mut Command) -> Result<(f64, f64), Fault> {
        let (begun, cpu) = (Instant::now(), children_cpu());
        let child = spawn(command)?;
        finish(child, self.limit())?;
        Ok((begun.elapsed().as_secs_f64(), children_cpu() - cpu))
    }

    pub(super) fn login(&self, client: &Client) -> Result<Vec<Figure>, Fault> {
        let (wall, cpu) = self.login_with(client, &[])?;
        Ok(vec![("wall", Unit::Seconds, wall), ("client CPU", Unit::CpuMs, cpu * 1000.0)])
    }

    /// Logs in with these keywords; returns wall time and processor time of the client, seconds.
    ///
    /// # Errors
    /// The client failed: its words.
    pub(super) fn login_with(
        &self,
        client: &Client,
        keywords: &[(&'static str, String)],
    ) -> Result<(f64, f64), Fault> {
        if self.runs_commands {
            let mut command = self.command_with(&client.ssh, keywords);
            command.arg(&self.plan.destination).arg(String::from_utf8_lossy(&sh(":")).into_owned());
            return self.timed(&mut command);
        }
        let no_sftp = || Fault::Client("there is no sftp beside it".to_owned());
        let sftp = client.sftp.as_deref().ok_or_else(no_sftp)?;
        let batch = self.batch("pwd\n")?;
        let mut command = self.command_with(sftp, keywords);
        self.timed(command.arg("-b").arg(&batch).arg(&*bracketed(&self.plan.destination)))
    }

    /// A file with commands for `sftp -b`.
    fn batch(&self, commands: &str) -> Result<PathBuf, Fault> {
        let path = self.here.join("batch");
        match fs::write(&path, commands) {
            Ok(()) => Ok(path),
            Err(error) => Err(Fault::File { path, error }),
        }
    }

    pub(super) fn up(&self, program: &Path, more: &[String]) -> Result<Vec<Figure>, Fault> {
        let cpu = children_cpu();
        let mut command = self.ssh(program, "echo ready; cat >/dev/null", more);
        let mut child = piped(&mut command)?;
        let guard = Guard::new(&child, self.limit());
        let (Some(mut input), Some(mut output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(no_pipes());
        };
        let mut ready = [0; 6];
        let is_ready = output.read_exact(&mut ready).is_ok();
        let (begun, block) = (Instant::now(), random(128 * 1024));
        let mut sent = 0_usize;
        while is_ready && begun.elapsed() < self.slice && input.write_all(&block).is_ok() {
            sent += block.len();
        }
        drop(input);
        finish(child, self.limit())?;
        drop(guard);
        Ok(moved("up", "client CPU up", sent as f64, begun.elapsed().as_secs_f64(), children_cpu() - cpu))
    }

    pub(super) fn down(&self, program: &Path, more: &[String]) -> Result<Vec<Figure>, Fault> {
        let cpu = children_cpu();
        let mut command = self.ssh(program, "cat /dev/zero", more);
        let mut child = spawn(command.stdout(Stdio::piped()))?;
        let guard = Guard::new(&child, self.limit());
        let Some(mut output) = child.stdout.take() else { return Err(no_pipes()) };
        let mut block = vec![0; 128 * 1024];
        let mut got = output.read(&mut block).unwrap_or(0);
        let begun = Instant::now();
        while got > 0 && begun.elapsed() < self.slice {
            match output.read(&mut block) {
                Ok(more @ 1..) => got += more,
                _ => break,
            }
        }
        let took = begun.elapsed().as_secs_f64();
        drop(output);
        kill(&mut child);
        let said = child.wait_with_output().map_err(waiting)?;
        drop(guard);
        if got == 0 {
            return Err(Fault::client(&String::from_utf8_lossy(&said.stderr)));
        }
        Ok(moved("down", "client CPU down", got as f64, took, children_cpu() - cpu))
    }

    /// Copies; returns wall time and processor time, seconds.
    fn copy(
        &self,
        program: &Path,
        flags: &[&str],
        from: &str,
        to: &str,
        keywords: &[(&'static str, String)],
    ) -> Result<(f64, f64), Fault> {
        self.timed(self.command_with(program, keywords).args(flags).args([from, to]))
    }

    /// Copies the file, with these keywords before those of the user.
    ///
    /// # Errors
    /// The client failed: its words.
    pub(super) fn copy_file(
        &self,
        program: &Path,
        direction: Direction,
        keywords: &[(&'static str, String)],
    ) -> Result<Vec<Figure>, Fault> {
        let there = self.remote("file");
        let (from, to, cpu_column) = match direction {
            Direction::Up => (self.file(), there, "client CPU up"),
            Direction::Down => (there, self.local("back"), "client CPU down"),
        };
        let (wall, cpu) = self.copy(program, &["-q"], &from, &to, keywords)?;
        // The file at the server is an older one where all uploads of this length have failed.
        if direction == Direction::Down {
            check_len(Path::new(&to), self.file_len)?;
        }
        Ok(moved(direction.column(), cpu_column, self.file_len as f64, wall, cpu))
    }

    /// Copies the directory of small files.
    pub(super) fn copy_files(
        &self,
        program: &Path,
        direction: Direction,
        from: &str,
        to: &str,
    ) -> Result<Vec<Figure>, Fault> {
        let (wall, _) = self.copy(program, &["-q", "-r"], from, to, &[])?;
        Ok(vec![(direction.column(), Unit::FilesPerSecond, FILES as f64 / wall)])
    }

    pub(super) fn list(&self, program: &Path) -> Result<Vec<Figure>, Fault> {
        let batch = self.batch(&format!("ls -1 \"{}/many/\"*7.dat\n", self.there))?;
        let mut command = self.command(program);
        // Like `scp`, `sftp` ends an address at its first colon.
        command.arg("-b").arg(&batch).arg(&*bracketed(&self.plan.destination)).stdout(Stdio::piped());
        let begun = Instant::now();
        let child = spawn(&mut command)?;
        let guard = Guard::new(&child, self.limit());
        let done = child.wait_with_output().map_err(waiting)?;
        drop(guard);
        let wall = begun.elapsed().as_secs_f64();
        let lines = done.stdout.split(|byte| *byte == b'\n');
        // Batches show their commands too.
        let lines = lines.filter(|line| line.ends_with(b".dat") && !line.starts_with(b"sftp> ")).count();
        // Half of what must match would be a faster and wrong answer.
        if lines != MANY / 10 {
            let said = lh_client::sanitise(String::from_utf8_lossy(&done.stderr).trim());
            return Err(Fault::Client(format!("{lines} names instead of {} {said}", MANY / 10)));
        }
        Ok(vec![("wall", Unit::Seconds, wall)])
    }
}

/// Fails where a copied file has another length than expected: a rate would be that of other data.
fn check_len(path: &Path, expected: usize) -> Result<(), Fault> {
    let len = fs::metadata(path).map_err(Fault::program(path))?.len();
    if len == expected as u64 {
        return Ok(());
    }
    Err(Fault::Client(format!("{len} bytes arrived in place of {expected}")))
}

/// Length of a file that takes about a slice of time at this rate, bytes/s.
pub(super) fn file_len(rate: f64, slice: Duration) -> usize {
    let [least, most] = FILE_LENS;
    (rate * slice.as_secs_f64()).clamp(least, most) as usize
}

fn moved(rate: &'static str, cpu_column: &'static str, bytes: f64, wall: f64, cpu: f64) -> Vec<Figure> {
    vec![
        (rate, Unit::BytesPerSecond, bytes / wall.max(1e-6)),
        (cpu_column, Unit::CpuMsPerMb, cpu * 1000.0 / (bytes / 1e6).max(1e-6)),
    ]
}

/// The path at this host, as `scp` takes it: without brackets, an IPv6 address ends at its first colon.
fn at_host(host: &str, path: &str) -> String {
    format!("{}:{path}", bracketed(host))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_at_an_ipv6_address_has_brackets() {
        assert_eq!(at_host("::1", "a/file"), "[::1]:a/file");
        assert_eq!(at_host("fe80::1%eth0", "/a"), "[fe80::1%eth0]:/a");
        assert_eq!(at_host("host.example", "a/file"), "host.example:a/file");
    }

    #[test]
    fn file_of_another_length_gives_no_rate() {
        let directory = tempfile::tempdir().unwrap();
        let back = directory.path().join("back");
        assert!(matches!(check_len(&back, 0), Err(Fault::File { .. })));
        fs::write(&back, [0; 16]).unwrap();
        assert!(check_len(&back, 16).is_ok());
        // Uploads of the longer file have failed, and the shorter one before is still at the server.
        let why = check_len(&back, 256).unwrap_err().to_string();
        assert_eq!(why, "16 bytes arrived in place of 256");
    }
}
