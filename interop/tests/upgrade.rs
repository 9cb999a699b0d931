//! Upgrades of `lhsshd` under load: its program is replaced as a package manager does it, and the listener is
//! reloaded or restarted. Every open session continues, with the program that it started with.

use std::fs;
use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use lh_interop::tunnel::free_port;
use lh_interop::{Lab, Terminal, assert_same_file, eventually, make_blob, our, peers};
use lh_testkit::Seeded;
use rustix::process::{Pid, Signal, kill_process};

/// Sessions of each kind; half of the clients are ours, half OpenSSH's.
const COMMANDS: usize = 12;
const SHELLS: usize = 8;
const SINGLE_FORWARDS: usize = 4;
const LOCAL_FORWARDS: usize = 4;
const REMOTE_FORWARDS: usize = 4;
const MASTERS: usize = 4;
const SFTP: usize = 6;
const UPLOADS: usize = 4;
const DOWNLOADS: usize = 4;
/// Sessions in all.
const SESSIONS: usize = 50;

/// Bytes of each copy, and its rate in kbit/s: it takes about eight seconds.
const COPY: usize = 4 << 20;
const RATE: &str = "4000";

/// A pause between two turns of a session: what is tested is that it goes on, not how fast.
const PAUSE: Duration = Duration::from_millis(50);

/// A listener, killed when dropped; its sessions stay.
struct Listener(Child);

impl Listener {
    fn start(lab: &Lab, program: &Path, port: u16, starts: usize) -> Self {
        let child = Command::new(program)
            .args(["-D", "-p", &port.to_string(), "-f", &lab.arg("conf"), "-E", &lab.arg("log")])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let listener = Self(child);
        listening(lab, starts);
        listener
    }

    /// Stops it as a service manager does where `KillMode=process`.
    fn stop(mut self) {
        signal(self.0.id(), Signal::TERM);
        self.0.wait().unwrap();
    }

    /// Inode of the program that the process runs.
    fn runs(&self) -> u64 {
        fs::metadata(format!("/proc/{}/exe", self.0.id())).unwrap().ino()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn signal(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), signal).unwrap();
}

fn log(lab: &Lab) -> String {
    fs::read_to_string(lab.path("log")).unwrap_or_default()
}

/// Waits until the server has said so often that it listens.
fn listening(lab: &Lab, times: usize) {
    eventually("the server listens", || {
        log(lab).matches("Server listening on 127.0.0.1 port ").count() >= times
    });
}

/// Puts a new program into the place of the old one, as dpkg and rpm do: the old file stays for those who run
/// it.
fn upgrade(program: &Path, version: u8) -> u64 {
    let new = program.with_extension("dpkg-new");
    fs::copy(our("lhsshd"), &new).unwrap();
    // Behind the end of what a loader reads.
    fs::OpenOptions::new().append(true).open(&new).unwrap().write_all(&[version]).unwrap();
    let inode = fs::metadata(&new).unwrap().ino();
    fs::rename(&new, program).unwrap();
    inode
}

/// What sessions tell the test: their turns, each a round trip whose data were compared.
struct Load {
    stop: AtomicBool,
    turns: Vec<(String, AtomicUsize)>,
}

impl Load {
    fn goes_on(&self) -> bool {
        !self.stop.load(Ordering::Relaxed)
    }

    /// Waits until each session has made two more turns: one that began after this call.
    fn all_go_on(&self, when: &str) {
        let before: Vec<usize> = self.turns.iter().map(|(_, turns)| turns.load(Ordering::Relaxed)).collect();
        for ((name, turns), before) in self.turns.iter().zip(before) {
            eventually(&format!("{name} goes on {when}"), || turns.load(Ordering::Relaxed) >= before + 2);
        }
    }
}

/// Ends the sessions when a test fails: their threads would be waited for without end.
struct Ending<'a>(&'a Load);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.stop.store(true, Ordering::Relaxed);
    }
}

/// What a session needs to know.
#[derive(Clone, Copy)]
struct Place<'a> {
    lab: &'a Lab,
    load: &'a Load,
    port: u16,
    echo: u16,
    /// Index of the session among all, and whether its client is ours.
    index: usize,
    ours: bool,
}

impl Place<'_> {
    fn client(&self, ours: &str, theirs: &str) -> PathBuf {
        if self.ours { our(ours) } else { lh_interop::find(theirs).unwrap() }
    }

    fn file(&self, name: &str) -> String {
        self.lab.arg(&format!("{name}-{}", self.index))
    }

    /// Arguments of `ssh`.
    fn args(&self, options: &[&str], command: &[&str]) -> Vec<String> {
        let mut args = self.lab.client_options();
        args.extend(["-p", &self.port.to_string()].map(str::to_owned));
        args.extend(options.iter().map(|&option| option.to_owned()));
        args.push("127.0.0.1".to_owned());
        args.extend(command.iter().map(|&word| word.to_owned()));
        args
    }

    fn spawn(&self, options: &[&str], command: &[&str]) -> (Child, ChildStdin, ChildStdout) {
        piped(Command::new(self.client("lhssh", "ssh")).args(self.args(options, command)), self.lab)
    }

    /// Lets a session make turns until the test ends.
    fn turns(&self, mut turn: impl FnMut(usize)) {
        let mut count = 0;
        while self.load.goes_on() {
            turn(count);
            count += 1;
            self.load.turns[self.index].1.store(count, Ordering::Relaxed);
            thread::sleep(PAUSE);
        }
    }

    /// Sends data of another kind and size in each turn, and compares what comes back.
    fn echoes(&self, mut to: impl Write, mut from: impl Read) {
        self.turns(|turn| {
            let data = Seeded::new((self.index * 1000 + turn) as u64).bytes(1000 + turn % 8 * 7001);
            to.write_all(&data).unwrap();
            let mut back = vec![0; data.len()];
            from.read_exact(&mut back).unwrap();
            assert!(back == data, "turn {turn} came back changed");
        });
    }
}

fn piped(command: &mut Command, lab: &Lab) -> (Child, ChildStdin, ChildStdout) {
    command.current_dir(lab.dir()).env("HOME", lab.path("home")).env_remove("SSH_AUTH_SOCK");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    (child, input, output)
}

/// A command, and a connection through `-W`: bytes there and back, then the end and the exit status.
fn streams(place: Place<'_>, options: &[&str], command: &[&str]) {
    let (mut child, input, mut output) = place.spawn(options, command);
    place.echoes(&input, &mut output);
    drop(input);
    let mut rest = Vec::new();
    output.read_to_end(&mut rest).unwrap();
    assert!(rest.is_empty() && child.wait().unwrap().success());
}

/// A person at a shell.
fn shell(place: Place<'_>) {
    let args = place.args(&["-tt"], &["exec sh"]);
    let client = place.client("lhssh", "ssh");
    let mut terminal = Terminal::start(&client, &args, place.lab.dir(), &place.lab.path("home"));
    place.turns(|turn| {
        terminal.send(&format!("echo turn $(({turn} + 1000))\n"));
        terminal.expect(&format!("turn {}\r\n", turn + 1000));
    });
    terminal.send("exit 7\n");
    assert_eq!(terminal.wait(), 7);
}

/// Connections through a forward over a Unix socket: one that lasts, and one more in each turn.
fn forward(place: Place<'_>, flag: &str) {
    let path = place.file("forward");
    let (mut child, _input, _output) = place.spawn(
        &["-N", "-o", "ExitOnForwardFailure=yes", flag, &format!("{path}:127.0.0.1:{}", place.echo)],
        &[],
    );
    eventually("the forward listens", || UnixStream::connect(&path).is_ok());
    let lasting = UnixStream::connect(&path).unwrap();
    place.turns(|turn| {
        let another = UnixStream::connect(&path).unwrap();
        for (seed, mut stream) in [(0, &another), (500, &lasting)] {
            let data = Seeded::new((place.index * 1000 + seed + turn) as u64).bytes(5000);
            stream.write_all(&data).unwrap();
            let mut back = vec![0; data.len()];
            stream.read_exact(&mut back).unwrap();
            assert!(back == data, "turn {turn} came back changed");
        }
        another.shutdown(Shutdown::Write).unwrap();
        assert_eq!((&another).read(&mut [0]).unwrap(), 0);
    });
    signal(child.id(), Signal::TERM);
    child.wait().unwrap();
}

/// A shared connection, with another command in each turn.
fn master(place: Place<'_>) {
    let path = place.file("control");
    let (mut child, _input, _output) = place.spawn(&["-M", "-N", "-S", &path], &[]);
    eventually("the control socket is there", || Path::new(&path).exists());
    let client = place.client("lhssh", "ssh");
    place.turns(|turn| {
        let command = format!("echo turn {turn}; exit 3");
        // Without the master it would log in anew, and could not: there is no such key.
        let ran = place.lab.run(
            &client,
            &["-F", "none", "-S", &path, "-o", "BatchMode=yes", "-o", "IdentityFile=none", "host", &command],
        );
        assert_eq!((ran.text(), ran.code), (format!("turn {turn}\n"), 3), "{}", ran.err);
    });
    signal(child.id(), Signal::TERM);
    child.wait().unwrap();
}

/// A person at an SFTP client: a file goes up and comes back in each turn.
fn sftp(place: Place<'_>) {
    let mut command = Command::new(place.client("lhsftp", "sftp"));
    command
        .args(["-q", "-b", "-", "-P", &place.port.to_string()])
        .args(place.lab.client_options())
        .arg("127.0.0.1");
    let (mut child, mut input, output) = piped(&mut command, place.lab);
    let mut lines = BufReader::new(output).lines();
    let [from, there, back] = ["from", "there", "back"].map(|name| place.file(name));
    place.turns(|turn| {
        make_blob(Path::new(&from), 20_000 + turn * 1000);
        let _ = fs::remove_file(&back);
        let commands = format!("put {from} {there}\nget {there} {back}\nrm {there}\n!echo turn {turn}\n");
        input.write_all(commands.as_bytes()).unwrap();
        let wanted = format!("turn {turn}");
        assert!(lines.by_ref().any(|line| line.unwrap() == wanted), "{wanted} does not come");
        assert_same_file(Path::new(&from), Path::new(&back));
    });
    drop(input);
    assert!(child.wait().unwrap().success());
}

/// A copy that was stopped half-way.
struct Held {
    child: Child,
    from: PathBuf,
    to: PathBuf,
}

/// Bytes of the largest file in a directory: of the part file, where a copy has one.
fn largest(directory: &Path) -> u64 {
    let files = fs::read_dir(directory).unwrap().flatten();
    files.filter_map(|file| Some(file.metadata().ok()?.len())).max().unwrap_or(0)
}

/// Starts a copy and stops its client in the middle.
fn copy(place: Place<'_>, is_upload: bool) -> Held {
    let from = PathBuf::from(place.file("blob"));
    make_blob(&from, COPY);
    let directory = PathBuf::from(place.file("target"));
    let to = directory.join("copy");
    loop {
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir(&directory).unwrap();
        let (source, target) = (from.display().to_string(), to.display().to_string());
        let remote = |path: &str| format!("127.0.0.1:{path}");
        let (source, target) = if is_upload { (source, remote(&target)) } else { (remote(&source), target) };
        let mut child = Command::new(place.client("lhscp", "scp"))
            .args(["-q", "-l", RATE, "-P", &place.port.to_string()])
            .args(place.lab.client_options())
            .args([source, target])
            .current_dir(place.lab.dir())
            .env_remove("SSH_AUTH_SOCK")
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        eventually("a part of the copy", || largest(&directory) > 0 || child.try_wait().unwrap().is_some());
        // It has not been waited for, so the process id is its own.
        if child.try_wait().unwrap().is_none() {
            signal(child.id(), Signal::STOP);
            if largest(&directory) < COPY as u64 {
                return Held { child, from, to };
            }
            signal(child.id(), Signal::CONT);
        }
        // This machine was busy elsewhere meanwhile.
        assert!(child.wait().unwrap().success());
    }
}

impl Held {
    fn finish(mut self) {
        assert!(
            !self.to.exists() || fs::metadata(&self.to).unwrap().len() < COPY as u64,
            "not in the middle"
        );
        signal(self.child.id(), Signal::CONT);
        assert!(self.child.wait().unwrap().success());
        assert_same_file(&self.from, &self.to);
    }
}

/// Serves connections by sending back what comes.
fn echo_server() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || {
                let _ = std::io::copy(&mut &stream, &mut &stream);
                let _ = stream.shutdown(Shutdown::Write);
            });
        }
    });
    port
}

/// A kind of session: its name, how many there are, and what runs in the thread of each.
type Kind = (&'static str, usize, fn(Place<'_>));

const KINDS: &[Kind] = &[
    ("command", COMMANDS, |place| streams(place, &[], &["cat"])),
    ("shell", SHELLS, shell),
    ("-W", SINGLE_FORWARDS, |place| streams(place, &["-W", &format!("127.0.0.1:{}", place.echo)], &[])),
    ("-L", LOCAL_FORWARDS, |place| forward(place, "-L")),
    ("-R", REMOTE_FORWARDS, |place| forward(place, "-R")),
    ("shared connection", MASTERS, master),
    ("SFTP", SFTP, sftp),
];

/// A login, which names the program that serves it; with our client and with OpenSSH's.
fn new_logins_are_served_by(place: Place<'_>, inode: u64) {
    for ours in [true, false] {
        let place = Place { ours, ..place };
        let args = place.args(&[], &["stat -Lc %i /proc/$PPID/exe"]);
        let ran = place.lab.run(&place.client("lhssh", "ssh"), &args).ok("a login after the upgrade");
        assert_eq!(ran.text().trim(), inode.to_string());
    }
}

/// Shells, commands, forwards, shared connections, SFTP sessions and copies are open while the program is
/// replaced twice: before a reload, and before the listener is stopped and started.
///
/// Covers: sshd (upgrade with open sessions: SIGHUP, SIGTERM and a new start)
#[test]
fn upgrades_with_fifty_open_sessions_lose_none() {
    let test = "upgrades_with_fifty_open_sessions_lose_none";
    if peers(test, ["ssh", "scp", "sftp"]).is_none() {
        return;
    }
    if !lh_interop::is_root() {
        return lh_interop::skip(test, "only root sees which program a server process runs");
    }
    let lab = Lab::new();
    lab.write(
        "conf",
        &format!(
            "HostKey {}\nListenAddress 127.0.0.1\nPidFile none\nAuthorizedKeysFile {}\nStrictModes no\n\
             PermitRootLogin yes\nPerSourcePenalties no\nMaxStartups 100\nSubsystem sftp internal-sftp\n",
            lab.arg("host_ed25519"),
            lab.arg("authorized_keys")
        ),
    );
    fs::create_dir(lab.path("sbin")).unwrap();
    let program = lab.path("sbin/lhsshd");
    let first = upgrade(&program, 0);
    let port = free_port();
    lab.know(port);
    let listener = Listener::start(&lab, &program, port, 1);
    assert_eq!(listener.runs(), first);

    let names =
        KINDS.iter().flat_map(|(name, count, _)| (0..*count).map(move |index| format!("{name} {index}")));
    let turns: Vec<_> = names.map(|name| (name, AtomicUsize::new(0))).collect();
    assert_eq!(turns.len() + UPLOADS + DOWNLOADS, SESSIONS);
    let load = Load { stop: AtomicBool::new(false), turns };
    let place = Place { lab: &lab, load: &load, port, echo: echo_server(), index: 0, ours: true };
    let places = (0..SESSIONS).map(|index| Place { index, ours: index % 2 == 0, ..place });
    let listener = thread::scope(|scope| {
        let ending = Ending(&load);
        let mut places = places.into_iter();
        for (_, count, run) in KINDS {
            for place in places.by_ref().take(*count) {
                scope.spawn(move || run(place));
            }
        }
        let copies: Vec<_> =
            places.enumerate().map(|(copy_index, place)| copy(place, copy_index < UPLOADS)).collect();
        load.all_go_on("before the upgrade");

        let second = upgrade(&program, 1);
        // The files are new, the listener is not yet: a connection that comes now gets the version of the
        // listener.
        new_logins_are_served_by(place, first);
        signal(listener.0.id(), Signal::HUP);
        listening(&lab, 2);
        assert_eq!(listener.runs(), second);
        new_logins_are_served_by(place, second);
        load.all_go_on("after a reload");

        let third = upgrade(&program, 2);
        listener.stop();
        load.all_go_on("without a listener");
        let listener = Listener::start(&lab, &program, port, 3);
        assert_eq!(listener.runs(), third);
        new_logins_are_served_by(place, third);
        load.all_go_on("after a restart");

        assert_eq!(copies.len(), UPLOADS + DOWNLOADS);
        copies.into_iter().for_each(Held::finish);
        load.all_go_on("at the end");
        drop(ending);
        listener
    });
    // One login for each session, and those of this test: none of them was made anew.
    let logins = log(&lab).matches("Accepted publickey for ").count();
    assert_eq!(logins, SESSIONS + 6, "{}", log(&lab));
    drop(listener);
}
