//! `longhaul bench`, `longhaul compare`, and `longhaul report` on their results.

use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use lh_interop::{
    Inetd, Lab, Lhsshd, TestUser, eventually, find, is_root, our, peers, safe_directory, script, skip,
    with_default_signals,
};
use serde_json::{Value, json};

/// A user with a plain shell, and Debian's `sshd`.
struct BenchSetup {
    lab: Lab,
    user: TestUser,
    server: Inetd,
}

impl BenchSetup {
    fn start(test: &str) -> Option<Self> {
        if !is_root() {
            skip(test, "another user's shell needs root");
            return None;
        }
        let [sshd] = peers(test, ["sshd"])?;
        let lab = Lab::new();
        let user = TestUser::new(&lab);
        std::fs::create_dir(lab.path("here")).unwrap();
        let authorized = user.home.join(".ssh/authorized_keys");
        let server = Inetd::openssh(&lab, &sshd, &format!("AuthorizedKeysFile {}\n", authorized.display()));
        Some(Self { lab, user, server })
    }

    fn bench(&self, more: &[&str]) -> Command {
        let mut command = self.long_bench(&["--quick"]);
        command.args(more);
        command
    }

    fn long_bench(&self, more: &[&str]) -> Command {
        let mut command = with_default_signals(&our("longhaul"));
        command.args(["bench", "--local-dir", &self.lab.arg("here")]);
        command.args(self.lab.client_options()).args(["-P", &self.server.port_arg()]).args(more);
        command.stdin(Stdio::null());
        command
    }

    fn host(&self) -> String {
        format!("{}@127.0.0.1", self.user.name)
    }

    /// What runs have left at the server.
    fn left(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.user.home).unwrap().flatten();
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        names.filter(|name| name.contains("longhaul")).collect()
    }

    /// Starts a run and waits until its directory is at the server.
    fn begun(&self) -> Child {
        let mut command = self.bench(&[&self.host()]);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        eventually("a directory at the server", || !self.left().is_empty());
        child
    }
}

/// True where results have this figure.
fn has(results: &Value, table: &str, name: &str, column: &str) -> bool {
    let rows = results["rows"].as_array().unwrap();
    rows.iter().any(|row| {
        let is = |member: &str, text: &str| row[member].as_str().unwrap().starts_with(text);
        is("table", table) && is("row", name) && is("column", column) && row["median"].as_f64().unwrap() > 0.0
    })
}

/// Covers: longhaul --quick
#[test]
fn quick_bench_has_rounds_of_its_main_rows() {
    let Some(setup) = BenchSetup::start("quick_bench_has_rounds_of_its_main_rows") else { return };
    let host = setup.host();
    let done = setup.bench(&["--json", &host]).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let results: Value = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!((&results["quick"], &results["time_limit_seconds"]), (&json!(true), &json!(20.0)));
    let missing = results["missing"].to_string();
    assert!(missing.contains("left to a run without --quick: ") && missing.contains("forwards"), "{missing}");
    // A machine that does other work has less than three rounds, and names what it had no time for.
    let is_cut = missing.contains("for lack of time: ");
    for (table, name, column) in [
        ("throughput by cipher", "", "up"),
        ("throughput by cipher", "", "down"),
        ("session set-up by key exchange", "", "wall"),
        ("clients: one file over SFTP", "lhssh", "up"),
        ("clients: one file over SFTP", "lhssh", "down"),
        ("clients: login", "lhssh", "wall"),
    ] {
        assert!(has(&results, table, name, column) || is_cut, "{table} {name} {column}: {results:#}");
    }
    for table in ["clients: through -L", "clients: latency of a keystroke", "clients: 100 files"] {
        assert!(!has(&results, table, "", ""), "{table}: {results:#}");
    }
    let is_left = |directory: &std::path::Path| std::fs::read_dir(directory).unwrap().count() > 0;
    assert!(setup.left().is_empty() && !is_left(&setup.lab.path("here")), "{:?}", setup.left());
}

#[test]
fn quick_bench_compares_a_jump_host_alone() {
    let Some(setup) = BenchSetup::start("quick_bench_compares_a_jump_host_alone") else { return };
    // Jump hosts have the files of the configuration only. The server is its own.
    let lab = &setup.lab;
    let [known, key] = ["known_hosts", "user_ed25519"].map(|name| lab.arg(name));
    lab.write("jump.conf", &format!("UserKnownHostsFile {known}\nIdentityFile {key}\nIdentitiesOnly yes\n"));
    let (config, jump_host) = (lab.arg("jump.conf"), format!("{}:{}", setup.host(), setup.server.port_arg()));
    let more = ["--json", "-F", &config, "-J", &jump_host, &setup.host()];
    let done = setup.bench(&more).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let results: Value = serde_json::from_slice(&done.stdout).unwrap();
    let missing = results["missing"].to_string();
    let is_cut = missing.contains("for lack of time: ");
    for row in ["lhssh -J", "lhssh to the jump host"] {
        for column in ["up", "down"] {
            let found = has(&results, "clients: through the jump host, and to it alone", row, column);
            assert!(found || is_cut, "{row} {column}: {results:#}");
        }
    }
    let missing = results["missing"].as_array().unwrap().iter().filter_map(Value::as_str);
    let mut of_jump_host = missing.filter(|why| why.contains("jump host"));
    assert!(of_jump_host.all(|why| why.starts_with("for lack of time: ")), "{results:#}");
}

/// A long run of a quarter of the usual time: it ends before the usual one would, and is not a quick one.
///
/// Covers: longhaul --time
#[test]
fn bench_takes_the_time_that_it_is_given() {
    let Some(setup) = BenchSetup::start("bench_takes_the_time_that_it_is_given") else { return };
    let begun = Instant::now();
    let done = setup.long_bench(&["--json", "--time", "30", &setup.host()]).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    assert!(begun.elapsed() < Duration::from_secs(100), "{:?}", begun.elapsed());
    let results: Value = serde_json::from_slice(&done.stdout).unwrap();
    assert!(has(&results, "latency", "", ""), "{results:#}");
    let missing = results["missing"].to_string();
    assert!(!missing.contains("--quick") && missing.contains("for lack of time: "), "{missing}");
    assert!(setup.left().is_empty(), "{:?}", setup.left());
}

/// Covers: longhaul --peer
/// Covers: longhaul --html
/// Covers: longhaul --tcp-port
#[test]
fn bench_measures_and_leaves_nothing_behind() {
    let Some(setup) = BenchSetup::start("bench_measures_and_leaves_nothing_behind") else { return };
    let mut more = vec!["--json".to_owned(), "--html".to_owned(), setup.lab.arg("bench.html")];
    more.extend(["--tcp-port".to_owned(), lh_interop::tunnel::free_port().to_string()]);
    let ssh = find("ssh");
    if let Some(ssh) = &ssh {
        // Notes which signals it would never receive.
        let blocked = setup.lab.arg("blocked");
        let body = format!("grep SigBlk /proc/self/status >>{blocked}\nexec {} \"$@\"", ssh.display());
        script(&setup.lab.path("stock-ssh"), &body);
        more.extend(["--peer".to_owned(), format!("stock={}", setup.lab.arg("stock-ssh"))]);
    }
    more.push(setup.host());
    let more: Vec<&str> = more.iter().map(String::as_str).collect();
    let done = setup.long_bench(&more).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let results: Value = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!(results["longhaul_bench"], 1);
    assert!(results["server"].as_str().unwrap().contains("OpenSSH"), "{results:#}");
    let rows = results["rows"].as_array().unwrap();
    for (table, name, column) in [
        ("throughput by cipher", "aes128-gcm", "up"),
        ("throughput by cipher", "aes128-gcm", "down"),
        ("throughput by cipher", "chacha20-poly1305", "client CPU up"),
        ("session set-up by key exchange", "curve25519-sha256", "wall"),
        ("session set-up by user key", "ssh-ed25519", "wall"),
        ("latency", "alone", "round trip"),
        ("latency", "beside a download", "round trip"),
        ("ceilings", "aes128-gcm", "alone"),
        ("ceilings", "disk of this machine, writing with fsync", "alone"),
        ("ceilings", "disk of this machine, reading what is not cached", "alone"),
        ("ceilings", "disk of the server, writing with fsync", "alone"),
        ("ceilings", "disk of the server, reading what is not cached", "alone"),
        ("clients: login", "lhssh", "wall"),
        ("clients: through a pipe", "lhssh", "down"),
        ("ceilings", "TCP alone (python3", "up"),
        ("ceilings", "TCP alone (python3", "down"),
        ("clients: through -L", "lhssh -L", "up"),
        ("clients: through -L", "lhssh -D", "down"),
        ("clients: through -L", "lhssh -J", "up"),
        ("clients: latency of a keystroke", "lhssh", "alone"),
        ("clients: latency of a keystroke", "lhssh", "beside a download"),
    ] {
        // A busy machine has no time for all. What is left out is named.
        let left_out = results["missing"].as_array().unwrap().iter().filter_map(Value::as_str);
        let left_out = left_out.filter(|why| why.starts_with("for lack of time: ")).collect::<String>();
        let what = if name.starts_with("disk") { "disks" } else { name.split(" (").next().unwrap() };
        // A home in memory has no disk to read from.
        let is_in_memory = || results["missing"].to_string().contains("its cache cannot be emptied");
        let is_named = left_out.contains(table)
            || left_out.contains(what)
            || (name.ends_with("not cached") && is_in_memory());
        assert!(has(&results, table, name, column) || is_named, "{table} {name} {column}: {results:#}");
    }
    let is_cut = results["missing"].to_string().contains("for lack of time: ");
    if ssh.is_some() && !is_cut {
        assert!(has(&results, "clients: through a pipe", "stock", "up"), "{results:#}");
        let blocked = setup.lab.read("blocked");
        assert!(blocked.lines().count() > 3, "{blocked}");
        assert!(blocked.lines().all(|line| line.ends_with("\t0000000000000000")), "{blocked}");
    }
    // Its resolution is 10 ms, so the figure may be 0.
    let of_server = |row: &Value| {
        row["table"] == "session set-up by key exchange"
            && row["column"] == "server CPU"
            && row["unit"] == "cpu_ms"
    };
    assert!(is_cut || rows.iter().filter(|row| of_server(row)).count() >= 2, "{results:#}");
    let missing = results["missing"].to_string();
    assert!(!missing.contains("no matching"), "what the server does not offer is not tried: {missing}");
    let warnings = String::from_utf8_lossy(&done.stderr);
    assert!(!warnings.contains("post-quantum"), "{warnings}");
    // Fewer than three rounds, or rounds that differ, are said to be noise.
    for row in rows {
        let values = row["values"].as_array().unwrap().len();
        assert!(values >= 3 || row["noise"] == json!(true), "{row:#}");
    }
    let comparisons = results["comparisons"].as_array().unwrap();
    assert!(comparisons.iter().any(|each| each["column"] == "up"), "{comparisons:#?}");
    for each in comparisons {
        let rounds = |row: &str| {
            let is = |value: &Value| value["row"] == each[row] && value["column"] == each["column"];
            let found = rows.iter().find(|value| value["table"] == each["table"] && is(value));
            found.unwrap()["values"].as_array().unwrap().len()
        };
        let is_few = rounds("best").min(rounds("next")) < 3;
        assert_eq!(each["verdict"] == json!("too_few_rounds"), is_few, "{each:#}");
    }
    assert!(setup.lab.read("bench.html").starts_with("<!doctype html>"));
    assert!(setup.left().is_empty(), "{:?}", setup.left());
    assert_eq!(std::fs::read_dir(setup.lab.path("here")).unwrap().count(), 0);
}

#[test]
fn bench_says_which_ways_a_server_refuses() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "AllowTcpForwarding no\nNoneEnabled yes\n");
    std::fs::create_dir_all(lab.path("there")).unwrap();
    let mut command = Command::new(our("longhaul"));
    command.args(["bench", "--json", "--local-dir", &lab.arg("there")]);
    command.args(["--remote-dir", &lab.arg("there")]).args(lab.client_options());
    command.args(["-P", &server.port_arg(), "127.0.0.1"]).stdin(Stdio::null());
    let done = command.output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let results: Value = serde_json::from_slice(&done.stdout).unwrap();
    let missing = results["missing"].to_string();
    for words in ["(lhssh -L): ", "(lhssh -D): ", "(lhssh -J): ", "TCP alone: --tcp-port N would"] {
        assert!(missing.contains(words), "{words}: {missing}");
    }
    assert!(missing.contains("administratively prohibited"), "{missing}");
    // Without a port for TCP alone, what is not encrypted is the ceiling, where both ends permit it.
    let rows = results["rows"].as_array().unwrap();
    let open = |column: &str| {
        rows.iter().any(|row| row["row"] == "SSH without encryption" && row["column"] == column)
    };
    assert!(open("up") && open("down"), "{results:#}");
    assert_eq!(std::fs::read_dir(lab.path("there")).unwrap().count(), 0);
}

#[test]
fn bench_cleans_up_when_it_is_interrupted() {
    let Some(setup) = BenchSetup::start("bench_cleans_up_when_it_is_interrupted") else { return };
    let child = setup.begun();
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let done = child.wait_with_output().unwrap();
    assert_eq!(done.status.code(), Some(130), "{}", String::from_utf8_lossy(&done.stderr));
    assert!(String::from_utf8_lossy(&done.stdout).contains("longhaul bench: 127.0.0.1"));
    assert!(setup.left().is_empty(), "{:?}", setup.left());
    assert_eq!(std::fs::read_dir(setup.lab.path("here")).unwrap().count(), 0);
    // Killed, it cannot: the server's side does.
    let mut child = setup.begun();
    child.kill().unwrap();
    child.wait().unwrap();
    eventually("the directory at the server is removed", || setup.left().is_empty());
}

#[test]
fn bench_names_what_its_command_does_not_remove() {
    let Some(setup) = BenchSetup::start("bench_names_what_its_command_does_not_remove") else { return };
    let child = setup.begun();
    // The user may not remove what root keeps there.
    let kept = setup.user.home.join(&setup.left()[0]).join("kept");
    std::fs::create_dir(&kept).unwrap();
    std::fs::set_permissions(&kept, std::fs::Permissions::from_mode(0o700)).unwrap();
    std::fs::write(kept.join("file"), "").unwrap();
    let done = child.wait_with_output().unwrap();
    let err = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(1), "{err}");
    let name = &setup.left()[0];
    assert!(err.contains(&format!("{name} stays at the server: rm: ")), "{err}");
    assert!(String::from_utf8_lossy(&done.stdout).contains("stays at the server"), "{err}");
}

#[test]
fn bench_ends_where_the_server_is_not_reached_any_more() {
    let test = "bench_ends_where_the_server_is_not_reached_any_more";
    let Some(setup) = BenchSetup::start(test) else { return };
    let mut command = setup.long_bench(&["--json", &setup.host()]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // Its last preparation at the server.
    let is_prepared =
        || setup.left().iter().any(|name| setup.user.home.join(name).join("small-kept").exists());
    eventually("small files at the server", is_prepared);
    let BenchSetup { lab: _lab, user: _user, server } = setup;
    drop(server);
    let done = child.wait_with_output().unwrap();
    let results: Value = serde_json::from_slice(&done.stdout).expect("JSON");
    let missing: Vec<&str> =
        results["missing"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    let last = missing.iter().find(|why| why.starts_with("all else, from second "));
    let last = last.unwrap_or_else(|| panic!("{missing:?}"));
    assert!(last.contains("the server was not reached any more: ssh: connect to host"), "{last}");
    assert!(!missing.iter().any(|why| why.starts_with("for lack of time")), "{missing:?}");
}

#[test]
fn bench_names_a_command_that_stops_answering() {
    let Some([sshd]) = peers("bench_names_a_command_that_stops_answering", ["sshd"]) else { return };
    let lab = Lab::new();
    std::fs::create_dir(lab.path("there")).unwrap();
    // The first look at the process that accepts connections is answered.
    let forced = lab.path("forced");
    let body = format!(
        "case \"$SSH_ORIGINAL_COMMAND\" in *\"cat /proc/\"[0-9]*\"/stat'\") mkdir {} 2>/dev/null || exec sleep 60;; esac\n\
         eval \"$SSH_ORIGINAL_COMMAND\"",
        lab.arg("looked")
    );
    script(&forced, &body);
    let server = Inetd::openssh(&lab, &sshd, &format!("ForceCommand {}\n", forced.display()));
    let mut command = Command::new(our("longhaul"));
    command.args([
        "bench",
        "--json",
        "--quick",
        "--local-dir",
        &lab.arg("."),
        "--remote-dir",
        &lab.arg("there"),
    ]);
    command.args(lab.client_options()).args(["-P", &server.port_arg(), "127.0.0.1"]).stdin(Stdio::null());
    let done = command.output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let results: Value = serde_json::from_slice(&done.stdout).unwrap();
    let missing = results["missing"].to_string();
    assert!(missing.contains("processor time of logins: a command for it did not end in time"), "{missing}");
}

#[test]
fn bench_reads_its_commands_behind_what_a_shell_prints() {
    let test = "bench_reads_its_commands_behind_what_a_shell_prints";
    let Some([sshd]) = peers(test, ["sshd"]) else { return };
    let lab = Lab::new();
    std::fs::create_dir(lab.path("there")).unwrap();
    let forced = lab.path("forced");
    // The text arrives by itself.
    script(&forced, "echo Welcome; sleep 0.3; eval \"$SSH_ORIGINAL_COMMAND\"");
    let server = Inetd::openssh(&lab, &sshd, &format!("ForceCommand {}\n", forced.display()));
    let mut command = Command::new(our("longhaul"));
    command.args(["bench", "--json", "--quick", "--local-dir", &lab.arg(".")]);
    command.args(["--remote-dir", &lab.arg("there")]);
    command.args(["--tcp-port", &lh_interop::tunnel::free_port().to_string()]);
    command.args(lab.client_options()).args(["-P", &server.port_arg(), "127.0.0.1"]).stdin(Stdio::null());
    let done = command.output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let results: Value = serde_json::from_slice(&done.stdout).unwrap();
    let missing = results["missing"].to_string();
    for wrong in ["the helper said", "it has no /proc that tells"] {
        assert!(!missing.contains(wrong), "{wrong}: {missing}");
    }
}

/// `longhaul bench` of a user with this lab, on this port.
fn bench_of_user(lab: &Lab, user: &TestUser, port: &str, more: &[&str]) -> Command {
    std::fs::create_dir_all(lab.path("here")).unwrap();
    let mut command = with_default_signals(&our("longhaul"));
    command.args(["bench", "--json", "--local-dir", &lab.arg("here")]).args(lab.client_options());
    command.args(["-P", port]).args(more).arg(format!("{}@127.0.0.1", user.name)).stdin(Stdio::null());
    command
}

fn entries(directory: &std::path::Path) -> usize {
    std::fs::read_dir(directory).map_or(0, Iterator::count)
}

/// The usual account for SFTP alone: its root belongs to root, and a directory in it to the user.
#[test]
fn bench_measures_files_where_sftp_is_all_there_is() {
    const TEST: &str = "bench_measures_files_where_sftp_is_all_there_is";
    if !is_root() {
        return skip(TEST, "another user's directory needs root");
    }
    let Some([sshd]) = peers(TEST, ["sshd"]) else { return };
    let (lab, jail) = (Lab::new(), safe_directory());
    let user = TestUser::new(&lab);
    let upload = jail.path().join("upload");
    std::fs::create_dir(&upload).unwrap();
    let (uid, gid) = user.ids();
    std::os::unix::fs::chown(&upload, Some(uid), Some(gid)).unwrap();
    let config = format!(
        "ChrootDirectory {}\nForceCommand internal-sftp\nAuthorizedKeysFile {}\n",
        jail.path().display(),
        user.home.join(".ssh/authorized_keys").display()
    );
    let server = Inetd::openssh(&lab, &sshd, &config);
    let more = ["--quick", "--remote-dir", "/upload"];
    let done = bench_of_user(&lab, &user, &server.port_arg(), &more).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let results: Value = serde_json::from_slice(&done.stdout).unwrap();
    let missing = results["missing"].to_string();
    for words in ["This service allows sftp connections only.", "without them there are no transfers"] {
        assert!(missing.contains(words), "{words}: {missing}");
    }
    // A round of the first rows is there on a busy machine, too.
    let has_files = |results: &Value| {
        const TABLE: &str = "throughput by cipher and MAC, one file over SFTP by lhscp, with the login";
        ["up", "down"].iter().all(|column| has(results, TABLE, "", column))
    };
    assert!(has_files(&results), "{results:#}");
    let is_cut = |results: &Value| results["missing"].to_string().contains("for lack of time: ");
    for (table, name, column) in [
        ("session set-up by key exchange", "", "wall"),
        ("clients: login and an SFTP session that does nothing", "lhssh", "wall"),
        ("latency of a small message", "alone", "round trip"),
    ] {
        assert!(
            has(&results, table, name, column) || is_cut(&results),
            "{table} {name} {column}: {results:#}"
        );
    }
    assert_eq!((entries(&upload), entries(&lab.path("here"))), (0, 0));
    // Its root is not the user's: what needs no file is measured, and the flag that helps is named.
    let server = Lhsshd::start(&lab, &config);
    let done = bench_of_user(&lab, &user, &server.port_arg(), &["--quick"]).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let results: Value = serde_json::from_slice(&done.stdout).unwrap();
    let missing = results["missing"].to_string();
    for words in ["files over SFTP: .longhaul-bench-", ": Permission denied (--remote-dir names"] {
        assert!(missing.contains(words), "{words}: {missing}");
    }
    let has_set_up = has(&results, "session set-up by key exchange", "", "wall");
    assert!(has_set_up || is_cut(&results), "{results:#}");
    assert!(!has(&results, "throughput", "", ""), "{results:#}");
    // A forced program waits for requests where a command of a run would be held.
    let keys = user.home.join(".ssh/authorized_keys");
    let forced = our("lhsftp-server");
    let config = format!("ForceCommand {}\nAuthorizedKeysFile {}\n", forced.display(), keys.display());
    let server = Inetd::openssh(&lab, &sshd, &config);
    let done = bench_of_user(&lab, &user, &server.port_arg(), &["--quick"]).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let results: Value = serde_json::from_slice(&done.stdout).unwrap();
    assert!(results["missing"].to_string().contains("commands give no output"), "{results:#}");
    assert!(has_files(&results), "{results:#}");
    assert!(left(&user).is_none());
}

/// What runs have left in the home of a user at the server.
fn left(user: &TestUser) -> Option<std::path::PathBuf> {
    let all = std::fs::read_dir(&user.home).unwrap().flatten();
    let mut ours = all.filter(|entry| entry.file_name().to_string_lossy().contains("longhaul"));
    ours.next().map(|entry| entry.path())
}

#[test]
fn bench_removes_its_files_over_sftp_when_it_is_interrupted() {
    const TEST: &str = "bench_removes_its_files_over_sftp_when_it_is_interrupted";
    if !is_root() {
        return skip(TEST, "another user's home needs root");
    }
    let Some([sshd]) = peers(TEST, ["sshd"]) else { return };
    let lab = Lab::new();
    let user = TestUser::new(&lab);
    let keys = user.home.join(".ssh/authorized_keys");
    let config = |command: &str| format!("ForceCommand {command}\nAuthorizedKeysFile {}\n", keys.display());
    let server = Inetd::openssh(&lab, &sshd, &config("internal-sftp"));
    let mut command = bench_of_user(&lab, &user, &server.port_arg(), &[]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    eventually("the files at the server", || {
        left(&user).is_some_and(|path| {
            (entries(&path.join("many")), entries(&path.join("small-kept"))) == (2000, 100)
        })
    });
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let done = child.wait_with_output().unwrap();
    assert_eq!(done.status.code(), Some(130), "{}", String::from_utf8_lossy(&done.stderr));
    assert_eq!((left(&user), entries(&lab.path("here"))), (None, 0));
    // A server that has neither commands nor SFTP gives no figures.
    let server = Inetd::openssh(&lab, &sshd, &config("echo git only"));
    let done = bench_of_user(&lab, &user, &server.port_arg(), &["--quick"]).output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(255), "{said}");
    assert!(said.contains("git only") && said.contains("; nor is there SFTP to measure: "), "{said}");
}

#[test]
fn bench_names_what_a_server_does_not_remove() {
    const TEST: &str = "bench_names_what_a_server_does_not_remove";
    if !is_root() {
        return skip(TEST, "another user's home needs root");
    }
    let Some([sshd]) = peers(TEST, ["sshd"]) else { return };
    let lab = Lab::new();
    let user = TestUser::new(&lab);
    // From some time on the server permits reading only, or does not answer.
    let program = user.home.join("forced");
    let body = format!(
        "[ -e ~/silent ] && touch ~/asked && exec sleep 20\n[ -e ~/read-only ] && more=-R\nexec {} $more",
        our("lhsftp-server").display()
    );
    script(&program, &body);
    let keys = user.home.join(".ssh/authorized_keys");
    let config = format!("ForceCommand {}\nAuthorizedKeysFile {}\n", program.display(), keys.display());
    let server = Inetd::openssh(&lab, &sshd, &config);
    let interrupted = |marker: &str| {
        let mut command = bench_of_user(&lab, &user, &server.port_arg(), &[]);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        eventually("a directory at the server", || left(&user).is_some());
        std::fs::write(user.home.join(marker), "").unwrap();
        rustix::process::kill_process(
            rustix::process::Pid::from_child(&child),
            rustix::process::Signal::TERM,
        )
        .unwrap();
        child
    };
    let done = interrupted("read-only").wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(130), "{said}");
    let results: Value = serde_json::from_slice(&done.stdout).unwrap();
    let path = left(&user).expect("a directory");
    let named = format!("{} stays at the server: ", path.file_name().unwrap().to_str().unwrap());
    assert!(results["missing"].to_string().contains(&named), "{results:#}");
    assert!(results["leftover"].to_string().contains(&named) && said.contains(&named), "{results:#}{said}");
    std::fs::remove_dir_all(&path).unwrap();
    std::fs::remove_file(user.home.join("read-only")).unwrap();
    // A second signal does not wait for a server that does not answer.
    let mut child = interrupted("silent");
    eventually("a session that does not answer", || user.home.join("asked").exists());
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::INT)
        .unwrap();
    let status = child.wait().unwrap();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(2));
}

/// Covers: longhaul --hosts
/// Covers: longhaul --shard
#[test]
fn bench_draws_a_matrix_of_a_list() {
    let Some(setup) = BenchSetup::start("bench_draws_a_matrix_of_a_list") else { return };
    let closed = lh_interop::tunnel::free_port();
    setup.lab.write("hosts", &format!("# paths\nssh://{}:{closed}\n{}\n", setup.host(), setup.host()));
    let list = setup.lab.arg("hosts");
    let page = setup.lab.arg("paths.html");
    let first = setup.bench(&["--hosts", &list, "--shard", "1/2", "--html", &page]).output().unwrap();
    assert_eq!(first.status.code(), Some(1), "{}", String::from_utf8_lossy(&first.stderr));
    let text = String::from_utf8_lossy(&first.stdout).into_owned();
    assert!(text.contains("onnection refused") && text.contains("of 1 paths"), "{text}");
    let page = setup.lab.read("paths.html");
    assert!(page.contains("onnection refused") && page.contains("<caption>paths"), "{page}");
    let second = setup.bench(&["--hosts", &list, "--shard", "2/2", "--json"]).output().unwrap();
    assert!(second.status.success(), "{}", String::from_utf8_lossy(&second.stderr));
    let line: Value = serde_json::from_slice(&second.stdout).unwrap();
    assert_eq!((line["from"].as_str(), line["to"].as_str()), (Some(""), Some(setup.host().as_str())));
    assert_eq!(line["run"]["longhaul_bench"], 1);
    let bad = setup.bench(&["--hosts", &list, "--shard", "3/2"]).output().unwrap();
    assert_eq!(bad.status.code(), Some(2));
}

/// Results with these upload rates.
fn results(host: &str, rates: &[f64]) -> String {
    let row = json!({
        "table": "throughput by cipher and MAC, through a pipe", "row": "aes128-gcm", "column": "up",
        "unit": "bytes_per_second", "values": rates,
    });
    json!({ "longhaul_bench": 1, "host": host, "server": "<b>", "rows": [row], "missing": [] }).to_string()
}

/// Covers: longhaul --fail-below
#[test]
fn compare_fails_only_for_clear_losses() {
    let lab = Lab::new();
    lab.write("old", &results("h", &[100e6, 101e6, 102e6]));
    lab.write("same", &results("h", &[97e6, 98e6, 101.5e6]));
    lab.write("worse", &results("h", &[70e6, 71e6, 72e6]));
    lab.write("noise", &results("h", &[10e6, 71e6, 120e6]));
    lab.write("few", &results("h", &[71e6]));
    lab.write("other", "{}");
    let compare = |new: &str| lab.run(&our("longhaul"), &["compare", "old", new, "--fail-below", "0.9"]);
    assert_eq!(compare("same").code, 0);
    let worse = compare("worse");
    assert_eq!(worse.code, 1);
    assert!(
        worse.text().contains("WORSE") && worse.text().contains("101 MB/s -> 71.0 MB/s"),
        "{}",
        worse.text()
    );
    let noise = compare("noise");
    assert_eq!(noise.code, 3, "neither a loss nor none: {}", noise.text());
    assert!(noise.text().contains("–  too noisy to tell"), "{}", noise.text());
    assert!(noise.text().contains("0 worse than allowed, 1 too noisy or too near"), "{}", noise.text());
    assert!(compare("few").code == 3 && compare("few").text().contains("too few rounds to tell"));
    // Without a limit nothing fails.
    let free = lab.run(&our("longhaul"), &["compare", "old", "noise"]);
    assert!(free.code == 0 && free.text().contains("too noisy to tell"), "{}", free.text());
    let mut more: Value = serde_json::from_str(&lab.read("old")).unwrap();
    let mut gone = more["rows"][0].clone();
    gone["row"] = json!("aes256-gcm");
    more["rows"].as_array_mut().unwrap().push(gone);
    lab.write("more", &more.to_string());
    let less = lab.run(&our("longhaul"), &["compare", "more", "old"]);
    assert!(less.text().ends_with("1 of the old run not in the new one\n"), "{}", less.text());
    assert_eq!(compare("other").code, 2);
    assert_eq!(lab.run(&our("longhaul"), &["compare", "old"]).code, 2);
}

#[test]
fn report_shows_runs_of_bench_side_by_side() {
    let lab = Lab::new();
    lab.write("a.json", &results("first", &[100e6, 101e6, 102e6]));
    lab.write("b.json", &results("second", &[70e6, 71e6, 72e6]));
    lab.run(&our("longhaul"), &["report", "-o", "page.html", "a.json", "b.json"]).ok("report");
    let page = lab.read("page.html");
    for outside in ["http:", "https:", " src=", "@import", "url(", "<script"] {
        assert!(!page.contains(outside), "the page refers to something outside itself: {outside}");
    }
    assert!(page.contains("1: first") && page.contains("2: second") && !page.contains("<p><b>"), "{page}");
    assert!(page.contains("1 of 1 figures are clearly worse"), "{page}");
    assert!(page.contains("1.42 times worse than run 1"), "{page}");
    lab.write("noisy.json", &results("third", &[10e6, 71e6, 120e6]));
    lab.run(&our("longhaul"), &["report", "-o", "noisy.html", "a.json", "noisy.json"]).ok("report");
    let noisy = lab.read("noisy.html");
    assert!(noisy.contains(">too noisy to tell<") && !noisy.contains("times worse"), "{noisy}");
    // Names without a place to break them: those of hosts, peers and keys are the user's.
    let long = "x".repeat(190);
    lab.write("long.json", &results(&long, &[100e6, 101e6, 102e6]).replace("aes128-gcm", &long));
    lab.run(&our("longhaul"), &["report", "-o", "long.html", "a.json", "long.json"]).ok("report");
    let shown = |page: &str| -> Vec<String> {
        page.split("data-value=\"")
            .skip(1)
            .filter_map(|rest| rest.split('"').next())
            .map(str::to_owned)
            .collect()
    };
    assert_eq!(shown(&page), ["101000000", "71000000"], "numbers of the page are those of the data");
    if let Some(chromium) = find("chromium-headless-shell").or_else(|| find("chromium")) {
        let dom = lab.drawn(&chromium, "page.html");
        assert_eq!(shown(&dom), shown(&page));
        assert!(dom.contains("<caption>throughput by cipher and MAC"), "{dom}");
        for width in [360, 800, 1400] {
            let seen = lab.shown(&chromium, "page.html", width);
            assert_eq!((seen.too_wide.as_str(), seen.faint.as_str()), ("", ""), "{width}");
            assert!(seen.console.is_empty(), "{width}: {:?}", seen.console);
            assert_eq!(shown(&seen.dom), shown(&page), "{width}");
            assert_eq!(lab.shown(&chromium, "long.html", width).too_wide, "", "{width}");
            for (role, count) in [("columnheader", 3), ("rowheader", 1), ("cell", 2)] {
                assert_eq!(seen.dom.matches(&format!("role=\"{role}\"")).count(), count, "{role}");
            }
        }
    } else {
        skip("report_shows_runs_of_bench_side_by_side", "no Chromium to draw the page");
    }
    let mixed = lab.run(&our("longhaul"), &["report", "a.json", "missing.json"]);
    assert!(mixed.code == 1 && mixed.err.contains("missing.json"), "{}", mixed.err);
}

#[test]
fn report_draws_the_matrix_of_all_shards() {
    let lab = Lab::new();
    let run = |rates: &[f64]| {
        let mut run: Value = serde_json::from_str(&results("h", rates)).unwrap();
        let mut down = run["rows"][0].clone();
        down["column"] = json!("down");
        run["rows"].as_array_mut().unwrap().push(down);
        run
    };
    let path = |from: &str, to: &str, rates: &[f64]| json!({ "from": from, "to": to, "run": run(rates), "error": null });
    let lost = json!({ "from": "a", "to": "c", "run": null, "error": "no <route>" });
    lab.write("1.json", &format!("{}\n{lost}\n", path("a", "b", &[100e6, 101e6, 102e6])));
    lab.write("2.json", &format!("{}\n", path("b", "c", &[10e6, 11e6, 12e6])));
    lab.run(&our("longhaul"), &["report", "-o", "paths.html", "1.json", "2.json"]).ok("report");
    let page = lab.read("paths.html");
    assert!(page.contains("1 of 3 paths") && page.contains("no &lt;route&gt;"), "{page}");
    assert!(page.contains("data-up=\"101000000\"") && page.contains("data-down=\"11000000\""), "{page}");
    if let Some(chromium) = find("chromium-headless-shell").or_else(|| find("chromium")) {
        for width in [360, 800, 1400] {
            let seen = lab.shown(&chromium, "paths.html", width);
            assert_eq!((seen.too_wide.as_str(), seen.faint.as_str()), ("", ""), "{width}");
            assert!(seen.console.is_empty(), "{width}: {:?}", seen.console);
        }
    } else {
        skip("report_draws_the_matrix_of_all_shards", "no Chromium to draw the page");
    }
    lab.write("lost.json", &lost.to_string());
    let nothing = lab.run(&our("longhaul"), &["compare", "lost.json", "2.json"]);
    assert_eq!(nothing.code, 2);
    assert!(nothing.err.contains("lost.json: line 1: no <route>"), "{}", nothing.err);
}

#[test]
fn bench_refuses_what_it_cannot_do() {
    let lab = Lab::new();
    let bench = |args: &[&str]| {
        let mut all = vec!["bench", "-F", "none"];
        all.extend(args);
        lab.run(&our("longhaul"), &all)
    };
    assert_eq!(bench(&[]).code, 2);
    assert_eq!(bench(&["a", "b"]).code, 2);
    let missing = bench(&["--peer", "x=/no/such/ssh", "host"]);
    assert!(missing.code == 255 && missing.err.contains("/no/such/ssh: No such file"), "{}", missing.err);
    assert!(missing.out.is_empty(), "{missing:?}");
    // Programs get an object in any case, which is no result.
    let missing = bench(&["--json", "-P", "1", "127.0.0.1"]);
    let value: Value = serde_json::from_slice(&missing.out).expect("JSON");
    assert_eq!((missing.code, &value["longhaul_bench"]), (255, &json!(1)));
    assert!(value["error"].as_str().unwrap().contains("Connection refused"), "{value}");
    lab.write("failed", &value.to_string());
    let compared = lab.run(&our("longhaul"), &["compare", "failed", "failed"]);
    assert!(compared.code == 2 && compared.err.contains("Connection refused"), "{}", compared.err);
    assert!(bench(&["--peer", "x", "host"]).err.contains("NAME=PROGRAM"));
    for time in ["29", "86401", "-1", "2m", ""] {
        let refused = bench(&["--time", time, "host"]);
        assert!(refused.err.contains("--time takes a number of seconds from 30 to 86400"), "{}", refused.err);
        assert_eq!(refused.code, 2);
    }
    assert!(bench(&["--quick", "--time", "60", "host"]).err.contains("give --quick or --time"));
    assert!(bench(&["--hosts", "list", "--time", "60"]).err.contains("--time goes with one host"));
    assert!(bench(&["--tcp-port", "0", "host"]).err.contains("a number from 1 to 65535"));
}
