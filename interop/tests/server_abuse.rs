//! Attacks by clients on `lhsshd`, before and after the login.

use std::fs;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use lh_interop::{
    Agent, Lab, Lhsshd, PamService, ServerSetup, TestUser, eventually, find, is_root, open_to_all, our,
    peers, process, script, skip, skip_unavailable, uninterrupted,
};
use rustix::process::{Pid, Signal, kill_process};

/// Options of the client for a login without a key.
const NO_KEY: [&str; 2] = ["-o", "PubkeyAuthentication=no"];

/// Configuration that permits whatever may be forwarded.
const ALL_FORWARDS: &str = "PermitTunnel yes\nX11Forwarding yes\n";

/// Makes `ssh` a program that connects to `port` of this host once it listens there, shows what comes, and
/// ends.
fn through_local_port(lab: &Lab, ssh: &Path, port: u16) -> PathBuf {
    let program = lab.path("through");
    script(
        &program,
        &format!(
            "exec bash -c '{ssh} \"$@\" & pid=$!\n\
             until (exec 3<>/dev/tcp/127.0.0.1/{port} || exit 1; cat <&3; exit 0) 2>/dev/null; do\n\
             kill -0 $pid || exit 99; sleep 0.05; done; kill $pid; wait $pid; exit 0' bash \"$@\"",
            ssh = ssh.display()
        ),
    );
    program
}

/// Checks that a login with these options, which succeeds, may forward nothing and copy nothing, because of
/// `why`.
fn forwards_nothing(setup: &mut ServerSetup, user: &TestUser, options: &[&str], why: &str) {
    let ssh = setup.ssh.clone();
    let ran = |setup: &ServerSetup, more: &[&str], command: &[&str]| {
        setup.ssh_typing(&user.name, &[user.password], &[options, more].concat(), command)
    };
    // What would be reached says so.
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = tcp.local_addr().unwrap().to_string();
    let path = setup.lab.path("target.sock");
    let unix = UnixListener::bind(&path).unwrap();
    open_to_all(setup.lab.dir());
    fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).unwrap();
    std::thread::spawn(move || tcp.incoming().flatten().for_each(|mut one| drop(one.write_all(b"reached"))));
    std::thread::spawn(move || unix.incoming().flatten().for_each(|mut one| drop(one.write_all(b"reached"))));
    let connected = ran(setup, &["-W", &target], &[]);
    assert!(connected.err.contains("administratively prohibited"), "{}", connected.err);
    for to in [target.clone(), path.display().to_string()] {
        let port = lh_interop::tunnel::free_port();
        setup.ssh = through_local_port(&setup.lab, &ssh, port);
        let reached = ran(setup, &["-v", "-N", "-L", &format!("{port}:{to}")], &[]);
        assert_eq!((reached.code, reached.text().as_str()), (0, ""), "{to}: {}", reached.err);
        assert!(reached.err.contains("administratively prohibited"), "{to}: {}", reached.err);
    }
    setup.ssh.clone_from(&ssh);
    let socket = setup.lab.arg("reverse.sock");
    for listen in [format!("0:{target}"), format!("{socket}:{target}")] {
        let listening = ran(setup, &["-N", "-o", "ExitOnForwardFailure=yes", "-R", &listen], &[]);
        assert_eq!(listening.code, 255, "{listen}: {}", listening.err);
        assert!(listening.err.contains("remote port forwarding failed"), "{listen}: {}", listening.err);
    }
    let tunnel = ran(setup, &["-w", "any", "-o", "ExitOnForwardFailure=yes", "-N"], &[]);
    assert_eq!(tunnel.code, 255, "{}", tunnel.err);
    let sftp = ran(setup, &["-s"], &["sftp"]);
    assert_ne!(sftp.code, 0, "{}", sftp.err);
    assert_eq!(sftp.text(), "");
    // The client asks for these where it has an agent and a display itself.
    let agent = Agent::ours(&setup.lab, "own-agent", &[]);
    setup.ssh = setup.lab.path("with-both");
    let variables = format!("DISPLAY=127.0.0.1:99 SSH_AUTH_SOCK={}", agent.socket.display());
    script(&setup.ssh, &format!("exec env {variables} {} \"$@\"", ssh.display()));
    let asked = ran(setup, &["-A", "-Y"], &["true"]);
    assert!(asked.err.contains("X11 forwarding request failed"), "{}", asked.err);
    setup.logged("agent forwarding is not allowed");
    setup.logged(&format!("X11 forwarding is not possible{why}"));
    setup.ssh = ssh;
}

/// Covers: expired passwords and forwards; sshd_config AllowTcpForwarding
#[test]
fn an_expired_password_forwards_nothing() {
    if !is_root() {
        return skip("expired_forwards", "needs root to make a user");
    }
    let lab = Lab::new();
    let user = TestUser::new(&lab);
    let Some(mut setup) = ServerSetup::with_lab("expired_forwards", lab, ALL_FORWARDS) else { return };
    setup.lab.run(Path::new("chage"), &["-d", "0", &user.name]).ok("chage");
    let told = setup.ssh_typing(&user.name, &[user.password], &NO_KEY, &["echo ran"]);
    assert_eq!((told.code, told.text().as_str()), (1, ""), "{}", told.err);
    assert!(told.err.contains("WARNING: Your password has expired."), "{}", told.err);
    forwards_nothing(&mut setup, &user, &NO_KEY, " before the password is changed.");
}

/// Covers: refused PAM sessions and forwards; sshd_config UsePAM
#[test]
fn a_session_that_pam_refuses_forwards_nothing() {
    let rules = "auth required pam_permit.so\naccount required pam_permit.so\nsession required pam_deny.so\n";
    let Some(service) = PamService::new("refused-session", rules) else { return };
    let lab = Lab::new();
    let user = TestUser::new(&lab);
    let config = format!("UsePAM yes\nPAMServiceName {}\n{ALL_FORWARDS}", service.name);
    let Some(mut setup) = ServerSetup::with_lab("refused_session", lab, &config) else { return };
    let told = setup.ssh_typing(&user.name, &[user.password], &NO_KEY, &["echo ran"]);
    assert_eq!((told.code, told.text().as_str()), (254, ""), "{}", told.err);
    forwards_nothing(&mut setup, &user, &NO_KEY, ": PAM refused the session.");
}

/// A PAM module that replaces the user who logs in, at the stage that its first argument names: by its second
/// argument, by a name that is not UTF-8, or by none.
const MAPPER: &str = "#include <string.h>\n\
    extern int pam_set_item(void *, int, const void *);\n\
    static int map(void *h, const char *stage, const char **v) {\n\
        if (strcmp(v[0], stage)) return 0;\n\
        pam_set_item(h, 2, !strcmp(v[1], \"=none\") ? 0 : !strcmp(v[1], \"=latin\") ? \"m\\xfcller\" : v[1]);\n\
        return 0;\n\
    }\n\
    #define AT(name, stage) int pam_sm_##name(void *h, int f, int c, const char **v) { return map(h, stage, v); }\n\
    AT(authenticate, \"auth\") AT(setcred, \"cred\") AT(acct_mgmt, \"account\")\n\
    AT(open_session, \"open\") AT(close_session, \"close\")\n";

/// Covers: sshd_config UsePAM (modules that map users)
#[test]
fn a_user_that_modules_have_mapped_is_refused() {
    let Some(service) = PamService::new("mapping", "") else { return };
    let Some(cc) = find("cc") else { return skip("mapping", "needs cc to make a module") };
    let lab = Lab::new();
    let user = TestUser::new(&lab);
    lab.write("mapper.c", MAPPER);
    let module = lab.arg("mapper.so");
    lab.run(&cc, &["-shared", "-fPIC", "-o", &module, &lab.arg("mapper.c")]).ok("cc");
    let config = format!("UsePAM yes\nPAMServiceName {}", service.name);
    let Some(setup) = ServerSetup::with_lab("mapping", lab, &config) else { return };
    let log_in = |method: &str, stage: &str, name: &str| {
        let rules =
            ["auth", "account", "session"].map(|kind| format!("{kind} required {module} {stage} {name}\n"));
        service.rules(&rules.concat());
        let preferred = format!("PreferredAuthentications={method}");
        let options = [&NO_KEY[..], &["-o", &preferred]].concat();
        let ran = setup.ssh_typing(&user.name, &[user.password], &options, &["echo in"]);
        assert_eq!(ran.text() == "in\n", name == user.name, "{method}, {stage} as {name}: {}", ran.err);
        ran.err
    };
    for method in ["keyboard-interactive", "password"] {
        for name in ["nobody", &user.name, "=none", "=latin"] {
            log_in(method, "auth", name);
        }
        setup.logged(&format!("modules changed the user from {} to nobody", user.name));
        setup.logged(&format!("modules removed the user, which was {}", user.name));
        setup.logged(&format!("modules changed the user from {} to m", user.name));
    }
    for name in ["nobody", &user.name, "=none"] {
        log_in("password", "account", name);
    }
    // After the login no program runs.
    for stage in ["cred", "open"] {
        log_in("password", stage, &user.name);
        let told = log_in("password", stage, "nobody");
        assert!(told.contains("PAM: modules changed the user"), "{told}");
        let told = log_in("password", stage, "=none");
        assert!(told.contains("PAM: modules removed the user"), "{told}");
    }
}

/// Returns the soft limit on core files of a process.
fn core_limit(limits: &str) -> Option<&str> {
    limits.lines().find_map(|line| line.strip_prefix("Max core file size"))?.split_whitespace().next()
}

/// Covers: core dumps of processes that hold keys
#[test]
fn processes_with_keys_leave_no_core_files() {
    let Some([ssh, prlimit]) = peers("no_cores", ["ssh", "prlimit"]) else { return };
    let lab = Lab::new();
    let program = lab.path("limited");
    script(&program, &format!("exec {} --core=4096: {} \"$@\"", prlimit.display(), our("lhsshd").display()));
    let server = Lhsshd::start_program(&program, &lab, "", &[]);
    let login = lab.shell_command(&ssh, server.port);
    // Users may debug their own programs.
    let limits = lab.sh(&format!("{login} 127.0.0.1 cat /proc/self/limits")).ok("limits").text();
    assert_eq!(core_limit(&limits), Some("4096"), "{limits}");
    let mut client = Command::new("sh")
        .args(["-c", &format!("exec {login} -N 127.0.0.1")])
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    eventually("a session is there", || server.log().matches("User child is on pid").count() == 2);
    for pid in [server.pid(), process::below(server.pid())[0]] {
        let of_process = |file: &str| fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap();
        assert_eq!(core_limit(&of_process("limits")), Some("0"));
        let maps = of_process("smaps");
        let heap = maps.split("[heap]").nth(1).unwrap();
        let flags = heap.lines().find_map(|line| line.strip_prefix("VmFlags:")).unwrap();
        assert!(flags.split_whitespace().any(|flag| flag == "dd"), "{flags}");
    }
    client.kill().unwrap();
    client.wait().unwrap();
}

/// 200 connections from 50 addresses, each held open and replaced when it ends, until the value is dropped.
struct Flood {
    stop: Arc<AtomicBool>,
    renewed: Arc<AtomicUsize>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

impl Flood {
    const CONNECTIONS: u8 = 200;
    const ADDRESSES: u8 = 50;

    fn new(port: u16) -> Self {
        let (stop, renewed) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let hold = |number: u8| {
            let (stop, renewed) = (Arc::clone(&stop), Arc::clone(&renewed));
            let from = Ipv4Addr::new(127, 0, 0, 100 + number % Self::ADDRESSES);
            std::thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let Ok(mut socket) = connect_from(from, port) else { continue };
                    renewed.fetch_add(1, Ordering::Relaxed);
                    socket.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
                    let mut buffer = [0; 1024];
                    loop {
                        match uninterrupted(|| socket.read(&mut buffer)) {
                            Ok(1..) => {}
                            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                            Ok(0) | Err(_) => break,
                        }
                        if stop.load(Ordering::Relaxed) {
                            break;
                        }
                    }
                    std::thread::sleep(Duration::from_millis(50));
                }
            })
        };
        let threads = (0..Self::CONNECTIONS).map(hold).collect();
        Self { stop, renewed, threads }
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

fn connect_from(from: Ipv4Addr, port: u16) -> io::Result<TcpStream> {
    use rustix::net::{AddressFamily, SocketAddrV4, SocketType, bind, connect, socket};
    let made = socket(AddressFamily::INET, SocketType::STREAM, None)?;
    bind(&made, &SocketAddrV4::new(from, 0))?;
    connect(&made, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, port))?;
    Ok(made.into())
}

/// Logs in from an address of its own; returns success and duration.
fn log_in(setup: &ServerSetup) -> (bool, Duration) {
    let began = Instant::now();
    let ran = setup.ssh(&["-o", "BindAddress=127.0.1.1", "-o", "ConnectTimeout=20"], &["echo in"]);
    (ran.text() == "in\n", began.elapsed())
}

/// Covers: sshd_config FairStartups; sshd_config MaxStartups; sshd_config PerSourcePenalties (a flood)
#[test]
fn honest_users_log_in_while_a_server_is_flooded() {
    // PerSourcePenalties at its default; the test library turns it off.
    let Some(setup) = ServerSetup::new("flooded", "PerSourcePenalties yes") else { return };
    let median = |mut times: Vec<Duration>| {
        times.sort_unstable();
        times[times.len() / 2]
    };
    let quiet = median((0..5).map(|_| log_in(&setup).1).collect());
    // A new server has no record of earlier logins.
    let Some(setup) = ServerSetup::new("flooded", "PerSourcePenalties yes") else { return };
    let flood = Flood::new(setup.server.port);
    setup.logged("beginning MaxStartups throttling");
    let logins: Vec<_> = (0..25).map(|_| log_in(&setup)).collect();
    let succeeded = logins.iter().filter(|(good, _)| *good).count();
    let flooded = median(logins.into_iter().map(|(_, time)| time).collect());
    let renewed = flood.renewed.load(Ordering::Relaxed);
    eprintln!("{succeeded} of 25, median {flooded:?} (quiet {quiet:?}), {renewed} connections of the flood");
    assert!(succeeded >= 24, "{succeeded} of 25");
    // Proves that the flood took all slots.
    assert!(renewed > 100, "{renewed}");
    drop(flood);
}

/// Returns the nice value of a process and, where the kernel schedules by session, that of its session.
fn nice(pid: u32) -> Option<(i32, Option<i32>)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let own = stat.rsplit_once(')')?.1.split_whitespace().nth(16)?.parse().ok()?;
    let group = fs::read_to_string(format!("/proc/{pid}/autogroup")).unwrap_or_default();
    Some((own, group.split_whitespace().last().and_then(|nice| nice.parse().ok())))
}

/// Returns whether these tests run only when nothing else wants to (SCHED_IDLE, sched(7)).
fn have_idle_policy() -> bool {
    const SCHED_IDLE: &str = "5";
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // `policy` is the 41st field (proc(5)); the second one ends with the last parenthesis.
    stat.rsplit_once(')').is_some_and(|(_, rest)| rest.split_whitespace().nth(38) == Some(SCHED_IDLE))
}

/// Returns whether a process that begins a session gets a group with a nice value. The file is empty for
/// processes none of whose ancestors has begun a session, as it is where the kernel has no such groups.
fn sessions_have_groups() -> bool {
    let shown = Command::new("setsid").args(["--wait", "cat", "/proc/self/autogroup"]).output().unwrap();
    String::from_utf8_lossy(&shown.stdout).contains("nice")
}

/// Returns whether processes may have their nice values, and those of their groups, raised and lowered at any
/// time.
fn may_raise_priority() -> bool {
    // Nice values belong to threads; the shell is a process of its own, and `setsid` gives it a group of its
    // own.
    let attempt = "renice -n 1 -p $$ && renice -n 0 -p $$ && \
        { ! grep -q nice /proc/self/autogroup 2>/dev/null || \
        { echo 5 >/proc/self/autogroup && echo 0 >/proc/self/autogroup; }; }";
    let ran = Command::new("setsid").args(["--wait", "sh", "-c", attempt]).output().unwrap();
    ran.status.success()
}

/// Returns whether the priority of connections can be seen here; says why not.
fn have_priorities() -> bool {
    if !is_root() {
        skip("priority", "needs root, who may raise a priority again");
    } else if !may_raise_priority() {
        skip_unavailable("priority", "this container may not raise a priority again");
    } else if have_idle_policy() {
        skip("priority", "nice values have no meaning under SCHED_IDLE, which these tests have");
    } else {
        return true;
    }
    false
}

/// The values of a process whose nice value is larger by this than the server's. Each connection begins a
/// session; the server itself need not be in one.
fn lowered(own: i32, by: i32) -> (i32, Option<i32>) {
    // 19 is the largest value there is, and these tests may have a high one themselves.
    ((own + by).min(19), sessions_have_groups().then_some(by))
}

/// Covers: priority of connections before the login
#[test]
fn one_of_many_connections_has_a_low_priority() {
    if !have_priorities() {
        return;
    }
    let Some(setup) = ServerSetup::new("priority", "") else { return };
    let (server, port) = (setup.server.pid(), setup.server.port);
    let (own, _) = nice(server).expect("the server runs");
    let low = lowered(own, 10);
    if low == (own, None) {
        return skip("priority", "these tests have the lowest priority themselves");
    }
    let values = || -> Vec<_> { process::below(server).into_iter().filter_map(nice).collect() };
    let count = |wanted| values().into_iter().filter(|&one| one == wanted).count();
    let _first = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
    // The monitor, the process before authentication, the one for the user.
    eventually("the first connection has its processes", || process::below(server).len() == 3);
    assert_eq!(count(low), 0);
    let _second = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
    let wanted =
        format!("the second connection has a low priority, {low:?}; at first all were {:?}", values());
    eventually(&wanted, || count(low) == 3);
    let shown = setup.ssh(
        &[],
        &["for pid in $$ $PPID $(ps -o ppid= -p $PPID); do ps -o ni= -p $pid; \
           sed 's/.* //' /proc/$pid/autogroup 2>/dev/null; done"],
    );
    let session: Vec<i32> = shown.text().split_whitespace().map(|word| word.parse().unwrap()).collect();
    assert_eq!(
        session,
        [&[own][..], &Vec::from_iter(sessions_have_groups().then_some(0))].concat().repeat(3)
    );
}

/// Covers: priority of connections before the login (sources with many)
#[test]
fn each_further_connection_has_a_lower_priority() {
    if !have_priorities() {
        return;
    }
    // A high limit is no reason to let many connections take the time of logins.
    let Some(setup) = ServerSetup::new("priority", "MaxStartups 1000") else { return };
    let (server, port) = (setup.server.pid(), setup.server.port);
    let (own, _) = nice(server).expect("the server runs");
    if lowered(own, 10).1.is_none() && own > 0 {
        return skip(
            "priority",
            "these tests have a low priority themselves, so that values cannot be told apart",
        );
    }
    let mut held = Vec::new();
    // `before`: processes that have the values already.
    let mut expect = |source: u8, by: i32, before: usize| {
        held.push(connect_from(Ipv4Addr::new(127, 0, 2, source), port).unwrap());
        let wanted = lowered(own, by);
        let have =
            || process::below(server).into_iter().filter_map(nice).filter(|&one| one == wanted).count();
        let what = format!("connection {}, from source {source}, has {wanted:?}", held.len());
        eventually(&what, || process::below(server).len() == 3 * held.len() && have() == before + 3);
    };
    // One source, and what is added to the nice value of each of its connections.
    for (by, before) in [(0, 0), (10, 0), (13, 0), (16, 0), (19, 0)] {
        expect(1, by, before);
    }
    // Others, until there are ten; the eleventh is one of many.
    for source in 2..=6 {
        expect(source, 0, 3 * usize::from(source - 1));
    }
    expect(7, 10, 3);
}

/// Covers: connections that wait to be accepted
#[test]
fn a_burst_of_connections_waits_for_the_listener() {
    const BURST: usize = 300;
    let most = fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap();
    if most.trim().parse::<usize>().unwrap() < BURST {
        return skip("burst", "needs net.core.somaxconn of 300");
    }
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "MaxStartups 10000");
    let listener = Pid::from_raw(server.pid().cast_signed()).unwrap();
    kill_process(listener, Signal::STOP).unwrap();
    let address = (Ipv4Addr::LOCALHOST, server.port).into();
    // A connection for which there is no place is tried again by the kernel, until this timeout.
    let connected = (0..BURST)
        .map(|_| TcpStream::connect_timeout(&address, Duration::from_secs(3)))
        .take_while(Result::is_ok)
        .count();
    kill_process(listener, Signal::CONT).unwrap();
    assert_eq!(connected, BURST);
}
