//! Command lines of suites with OpenSSH's flags (Longhaul among them), and of dropbear.

use std::path::Path;

use lh_interop::find;

use super::task::{Task, Variation, remote};
use crate::bench::{Bench, FAR_PROGRAM, HOST_ALIAS, groups};
use crate::cipher_suite::CipherSuite;
use crate::job::{Client, Commands, Flow, Program, Server};

/// A server with one host key. Longhaul's runs as a listener that starts a session per connection, its normal
/// mode. The others run once per connection in inetd mode, which saves them the listener's work.
pub(super) fn server(bench: &Bench, ours: bool, sshd: &Path, with: &Variation) -> Server {
    let name = format!("{}.conf", bench.fresh("sshd").file_name().unwrap_or_default().to_string_lossy());
    let own = if ours {
        format!("ListenAddress {}\n", bench.options.hosts.address)
    } else {
        let _ = std::fs::create_dir_all("/run/sshd");
        "UsePAM no\n".to_owned()
    };
    let wished: String = bench
        .options
        .own
        .iter()
        .filter(|_| ours)
        .map(|option| format!("{}\n", option.replacen('=', " ", 1)))
        .collect();
    // Current servers do not offer finite-field exchange by default.
    let kex = with.kex.as_ref().map_or_else(String::new, |kex| format!("KexAlgorithms {kex}\n"));
    let suite = with.suite.as_ref().map(CipherSuite::server_lines).unwrap_or_default();
    let groups = with
        .group_bits
        .map_or_else(String::new, |bits| format!("ModuliFile {}\n", bench.lab.arg(&groups::file_name(bits))));
    let resume = match with.resume {
        Some(true) => "ResumeGrace 10m\n",
        Some(false) => "ResumeGrace 0\n",
        None => "",
    };
    bench.lab.write(
        &name,
        &format!(
            "{own}{wished}{resume}{kex}{groups}{suite}HostKey {}\nAuthorizedKeysFile {}\nPermitRootLogin yes\nStrictModes no\nPidFile none\n\
             PrintMotd no\nMaxStartups 100\nSubsystem sftp internal-sftp\n",
            bench.lab.arg(&format!("host_{}", with.host_key())),
            bench.lab.arg("authorized_keys"),
        ),
    );
    let conf = bench.lab.arg(&name);
    let args: Vec<&str> =
        if ours { vec!["-D", "-p", "0", "-f", &conf, "-E", "{log}"] } else { vec!["-i", "-e", "-f", &conf] };
    Server { program: Program::new(sshd, args), listens: ours }
}

/// Options that restrict a client to the lab's keys and set the variation.
pub(crate) fn client_options(bench: &Bench, with: &Variation) -> Vec<String> {
    let mut options = vec!["-F".to_owned(), "none".to_owned()];
    let mut add = |option: String| options.extend(["-o".to_owned(), option]);
    add(format!("UserKnownHostsFile={}", bench.lab.arg("known_hosts")));
    add("GlobalKnownHostsFile=/dev/null".to_owned());
    add("StrictHostKeyChecking=yes".to_owned());
    add(format!("HostKeyAlias={HOST_ALIAS}"));
    add("IdentitiesOnly=yes".to_owned());
    add(format!("IdentityFile={}", bench.lab.arg(&format!("user_{}", with.user_key()))));
    add("BatchMode=yes".to_owned());
    if let Some(kex) = &with.kex {
        add(format!("KexAlgorithms={kex}"));
    }
    if let Some(resume) = with.resume {
        add(format!("Resume={}", if resume { "yes" } else { "no" }));
    }
    if let Some(suite) = &with.suite {
        options.extend(suite.options());
    }
    options
}

/// [`client_options`], and the `--option` settings for our own programs.
pub(super) fn options(bench: &Bench, program: &Path, with: &Variation) -> Vec<String> {
    let mut options = client_options(bench, with);
    if program.starts_with(lh_interop::bin_dir()) {
        options.extend(bench.options.own.iter().flat_map(|option| ["-o".to_owned(), option.clone()]));
    }
    options
}

/// The client for a task.
pub(super) fn client(bench: &Bench, ssh: &Path, scp: &Path, with: &Variation, task: &Task<'_>) -> Client {
    let here = |path: &Path| path.display().to_string();
    let run = |command: String| {
        let mut args = options(bench, ssh, with);
        args.extend(["-p".to_owned(), "{port}".to_owned(), format!("{}@{{address}}", bench.user()), command]);
        Client::new(Program::new(ssh, args))
    };
    let copy = |flags: &[&str], from: String, to: String| {
        let mut args = options(bench, scp, with);
        args.extend(flags.iter().map(|&flag| flag.to_owned()));
        args.extend(["-q", "-P", "{port}"].map(str::to_owned));
        args.extend([from, to]);
        Client { commands: Commands::None, ..Client::new(Program::new(scp, args)) }
    };
    match task {
        Task::PipeDown(file) => {
            let (command, commands) = counted(bench, &format!("cat {}", file.display()));
            Client { commands, ..run(command) }
        }
        Task::PipeUp(file) => {
            let (command, commands) = counted(bench, "cat >/dev/null");
            Client { commands, stdin: Some(file.to_path_buf()), ..run(command) }
        }
        Task::ZerosDown(seconds) => {
            // `timeout` exits with status 124 when it ends the command, which is success here.
            let command = format!("timeout {seconds} cat /dev/zero; test $? = 124");
            Client { flow: Flow::Meter, ..run(command) }
        }
        Task::ZerosUp(seconds) => Client { flow: Flow::Feed(*seconds), ..run("cat >/dev/null".to_owned()) },
        Task::Nothing(times) => Client { repeat: *times, ..run("true".to_owned()) },
        Task::Command(command) => run((*command).to_owned()),
        Task::Get(from, to) => copy(&[], remote(bench, from), here(to)),
        Task::Put(from, to) => copy(&[], here(from), remote(bench, to)),
        Task::GetTree(from, to) => copy(&["-r"], remote(bench, from), here(to)),
        Task::PutTree(from, to) => copy(&["-r"], here(from), remote(bench, to)),
        Task::Glob(dir, pattern, to) => copy(&[], remote(bench, &dir.join(pattern)), here(to)),
    }
}

/// A remote command whose CPU time is written to a file, with that of the login shell that executes it.
fn counted(bench: &Bench, command: &str) -> (String, Commands) {
    let name = bench.fresh("command").file_name().unwrap_or_default().to_string_lossy().into_owned();
    // Where the session's user may write.
    let file = bench.data(&name);
    let program = bench.lab.path(FAR_PROGRAM);
    let line =
        format!("exec {} {} {} {command}", program.display(), crate::end::counted::NAME, file.display());
    (line, Commands::Counted(file))
}

/// Runs a script with `sh`; the client and its arguments are `"$0" "$@"`.
fn script(line: String, client: &Path, args: Vec<String>) -> Client {
    let words = ["-c".to_owned(), line, client.display().to_string()];
    Client::new(Program::new(Path::new("/bin/sh"), words.into_iter().chain(args)))
}

/// Transfer of a tree through `tar` at both ends.
pub(super) fn tar(bench: &Bench, ssh: &Path, with: &Variation, task: &Task<'_>) -> Option<Client> {
    let mut args = options(bench, ssh, with);
    args.extend(["-p".to_owned(), "{port}".to_owned(), format!("{}@{{address}}", bench.user())]);
    let packing = |tree: &Path| format!("tar -C {} -cf - .", tree.display());
    let unpacking = |tree: &Path| format!("mkdir -p {0} && tar -C {0} -xf -", tree.display());
    let line = match task {
        Task::PutTree(from, to) => format!("{} | \"$0\" \"$@\" '{}'", packing(from), unpacking(to)),
        Task::GetTree(from, to) => format!("\"$0\" \"$@\" '{}' | ( {} )", packing(from), unpacking(to)),
        _ => return None,
    };
    Some(script(line, ssh, args))
}

/// `ls PATTERN` with the `sftp` beside `scp`.
pub(super) fn listing(
    bench: &Bench,
    scp: &Path,
    with: &Variation,
    pattern: &Path,
    to: &Path,
) -> Option<Client> {
    let name = scp.file_name()?.to_str()?.replace("scp", "sftp");
    let sftp = scp.with_file_name(name);
    if !sftp.is_file() {
        return None;
    }
    bench.lab.write("list.batch", &format!("ls -1 {}\n", pattern.display()));
    let mut args = options(bench, &sftp, with);
    args.extend(["-q", "-b"].map(str::to_owned));
    args.extend([bench.lab.arg("list.batch"), "-P".to_owned(), "{port}".to_owned()]);
    args.push(format!("{}@{{address}}", bench.user()));
    Some(script(format!("exec \"$0\" \"$@\" >{}", to.display()), &sftp, args))
}

/// Converts the lab's keys for dropbear; false on failure.
pub(super) fn dropbear_keys(bench: &Bench) -> bool {
    let Some(convert) = find("dropbearconvert") else { return false };
    ["host_ed25519", "user_ed25519"].iter().all(|key| {
        let (from, to) = (bench.lab.arg(key), bench.lab.arg(&format!("{key}.dropbear")));
        bench.lab.run(&convert, &["openssh", "dropbear", &from, &to]).code == 0
    })
}

fn dropbear_can(with: &Variation) -> bool {
    let suite = with.suite.is_none_or(|suite| {
        let cipher =
            ["chacha20-poly1305@openssh.com", "aes128-ctr", "aes256-ctr"].contains(&suite.cipher.name);
        cipher && suite.mac.is_none_or(|mac| mac.name == "hmac-sha2-256")
    });
    suite && with.kex.is_none() && with.host_key() == "ed25519" && with.user_key() == "ed25519"
}

pub(super) fn dropbear_server(bench: &Bench, dropbear: &Path, with: &Variation) -> Option<Server> {
    let args = ["-i".to_owned(), "-r".to_owned(), bench.lab.arg("host_ed25519.dropbear")];
    dropbear_can(with).then(|| Server { program: Program::new(dropbear, args), listens: false })
}

pub(super) fn dropbear_client(
    bench: &Bench,
    dbclient: &Path,
    with: &Variation,
    task: &Task<'_>,
) -> Option<Client> {
    let mut args =
        vec!["-y".to_owned(), "-y".to_owned(), "-i".to_owned(), bench.lab.arg("user_ed25519.dropbear")];
    if let Some(suite) = &with.suite {
        args.extend(["-c".to_owned(), suite.cipher.name.to_owned()]);
        if let Some(mac) = suite.mac {
            args.extend(["-m".to_owned(), mac.name.to_owned()]);
        }
    }
    args.extend(["-p".to_owned(), "{port}".to_owned(), format!("{}@{{address}}", bench.user())]);
    let uncounted = |command: &str| (command.to_owned(), Commands::Unknown);
    let ((command, commands), stdin, repeat) = match task {
        Task::PipeDown(file) => (counted(bench, &format!("cat {}", file.display())), None, 1),
        Task::PipeUp(file) => (counted(bench, "cat >/dev/null"), Some(file.to_path_buf()), 1),
        Task::Nothing(times) => (uncounted("true"), None, *times),
        Task::Command(command) => (uncounted(command), None, 1),
        _ => return None,
    };
    args.push(command);
    dropbear_can(with).then(|| Client {
        stdin,
        repeat,
        commands,
        ..Client::new(Program::new(dbclient, args))
    })
}
