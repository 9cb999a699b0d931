//! Limits on the use of an agent's keys: lifetime, confirmation, destination hosts, and other users.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use lh_interop::{Agent, Inetd, Lab, TestUser, eventually, is_root, me, our, peers, script, skip};

fn held(agent: &Agent, lab: &Lab) -> usize {
    let list = agent.run(lab, &our("lhssh-add"), &["-l"]);
    if list.code == 0 { list.text().lines().count() } else { 0 }
}

/// Waits until the agent has no keys left.
fn empties(agent: &Agent, lab: &Lab) -> bool {
    (0..300).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(50));
        held(agent, lab) == 0
    })
}

/// Covers: ssh-agent -t; ssh-add -t; wire SSH_AGENT_CONSTRAIN_LIFETIME
#[test]
fn keys_are_forgotten_after_their_time() {
    let lab = Lab::new();
    let add = our("lhssh-add");
    let agent = Agent::ours(&lab, "agent", &[]);
    let ran = agent.run(&lab, &add, &["-t", "1", &lab.arg("user_rsa")]).ok("added");
    assert!(ran.err.contains("Lifetime set to 1 seconds"), "{}", ran.err);
    assert!(empties(&agent, &lab));
    let short = Agent::ours(&lab, "short", &["-t", "1"]);
    short.run(&lab, &add, &[lab.arg("user_rsa")]).ok("added");
    assert!(empties(&short, &lab));
    // A key's own lifetime overrides the agent's.
    short.run(&lab, &add, &["-t", "1h", &lab.arg("user_rsa")]).ok("added");
    // A key that comes after it, with the agent's lifetime, is gone before it.
    short.run(&lab, &add, &[lab.arg("user_ed25519")]).ok("added");
    eventually("the later key is forgotten", || held(&short, &lab) == 1);
    let left = short.run(&lab, &add, &["-l"]).ok("list").text();
    assert!(left.contains("(RSA)"), "{left}");
}

/// Covers: ssh-agent (SIGUSR1, SIGTERM)
#[test]
fn signals_drop_keys_and_end_the_agent() {
    let lab = Lab::new();
    let mut agent = Agent::ours(&lab, "agent", &[]);
    agent.run(&lab, &our("lhssh-add"), &[lab.arg("user_rsa")]).ok("added");
    assert_eq!(held(&agent, &lab), 1);
    lab.sh(&format!("kill -USR1 {}", agent.pid())).ok("kill");
    assert!(empties(&agent, &lab));
    lab.sh(&format!("kill -TERM {}", agent.pid())).ok("kill");
    assert!(agent.ended() && !agent.socket.exists());
}

/// Covers: ssh-add -c; wire SSH_AGENT_CONSTRAIN_CONFIRM
#[test]
fn a_key_to_be_confirmed_is_used_only_with_a_yes() {
    let lab = Lab::new();
    let confirm = lab.path("confirm");
    let body = format!(
        "printf '%s %s\\n' \"$SSH_ASKPASS_PROMPT\" \"$1\" >>{}\ntest -e {}",
        lab.arg("asked"),
        lab.arg("yes")
    );
    script(&confirm, &body);
    let env = [("SSH_ASKPASS", confirm.to_str().unwrap())];
    let agent = Agent::start(&lab, &our("lhssh-agent"), "agent", &[], &env);
    agent.run(&lab, &our("lhssh-add"), &["-c", &lab.arg("user_ed25519")]).ok("added");
    let test = || agent.run(&lab, &our("lhssh-add"), &["-T", &lab.arg("user_ed25519.pub")]);
    let refused = test();
    assert_eq!(refused.code, 1);
    assert!(refused.err.contains("agent refused operation"), "{}", refused.err);
    lab.write("yes", "");
    test().ok("confirmed");
    let asked = lab.read("asked");
    assert!(asked.starts_with("confirm Allow use of key user_ed25519?\nKey fingerprint SHA256:"), "{asked}");
}

/// A key constrained to one host is of no use for another, whichever client and agent are used.
///
/// Covers: ssh-add -h; ssh-add -H; wire session-bind@openssh.com; wire restrict-destination-v00@openssh.com
#[test]
fn destination_constraints_limit_keys() {
    let Some([sshd, ssh_agent, ssh, ssh_add]) =
        peers("destination_constraints_limit_keys", ["sshd", "ssh-agent", "ssh", "ssh-add"])
    else {
        return;
    };
    let lab = Lab::new();
    let server = Inetd::openssh(&lab, &sshd, "");
    // The same server with another host key is another host.
    let other = other_host(&lab, &sshd);
    let known = [lab.read("known_hosts"), format!("[127.0.0.1]:{} {}", other.port, lab.read("second.pub"))];
    lab.write("known_hosts", &known.concat());
    lab.write("first_known", &format!("first {}", lab.read("host_ed25519.pub")));
    let agents: [PathBuf; 2] = [ssh_agent, our("lhssh-agent")];
    for (index, program) in agents.iter().enumerate() {
        for (number, (client, add)) in
            [(ssh.clone(), ssh_add.clone()), (our("lhssh"), our("lhssh-add"))].iter().enumerate()
        {
            let agent = Agent::start(&lab, program, &format!("agent{index}{number}"), &[], &[]);
            let user = me();
            let constraint = format!("{user}@first");
            let args = ["-q", "-H", &lab.arg("first_known"), "-h", &constraint, &lab.arg("user_rsa")];
            agent.run(&lab, add, &args).ok("added");
            let login = |port: u16| {
                let mut args: Vec<String> = vec!["-F".into(), "none".into()];
                for option in [
                    format!("UserKnownHostsFile={}", lab.arg("known_hosts")),
                    "GlobalKnownHostsFile=/dev/null".into(),
                    "StrictHostKeyChecking=yes".into(),
                    "HostKeyAlgorithms=ssh-ed25519".into(),
                    format!("IdentityFile={}", lab.arg("none")),
                    "BatchMode=yes".into(),
                ] {
                    args.extend(["-o".to_owned(), option]);
                }
                args.extend(["-p".into(), port.to_string(), format!("{user}@127.0.0.1"), "echo in".into()]);
                agent.run(&lab, client, &args)
            };
            let allowed = login(server.port);
            assert_eq!(
                (allowed.code, allowed.text().as_str()),
                (0, "in\n"),
                "{}: {}",
                client.display(),
                allowed.err
            );
            let denied = login(other.port);
            assert_eq!(denied.code, 255, "{} with {}", client.display(), program.display());
            assert!(denied.err.contains("Permission denied"), "{}", denied.err);
            // Outside of a session the key signs nothing either.
            assert_eq!(agent.run(&lab, add, &["-T", &lab.arg("user_rsa.pub")]).code, 1);
        }
    }
    let agent = Agent::ours(&lab, "agent", &[]);
    let unknown = agent.run(&lab, &our("lhssh-add"), &["-h", "unknown.example", &lab.arg("user_rsa")]);
    assert_eq!(unknown.code, 255);
    assert!(
        unknown.err.contains("No host keys found for destination \"unknown.example\""),
        "{}",
        unknown.err
    );
}

fn other_host(lab: &Lab, sshd: &Path) -> Inetd {
    let keygen = lh_interop::find("ssh-keygen").unwrap_or_default();
    lab.run(&keygen, &["-q", "-t", "ed25519", "-N", "", "-f", &lab.arg("second")]).ok("ssh-keygen");
    let text = format!(
        "HostKey {}\nAuthorizedKeysFile {}\nPermitRootLogin yes\nStrictModes no\nUsePAM no\nPidFile none\n",
        lab.arg("second"),
        lab.arg("authorized_keys")
    );
    lab.write("second.conf", &text);
    Inetd::start(lab, sshd, &["-i".into(), "-e".into(), "-f".into(), lab.arg("second.conf")])
}

/// Another user gets no reply, even where the socket's mode lets that user connect; other users cannot
/// inspect the process.
///
/// Covers: ssh-agent (peer's user id, prctl)
#[test]
fn agent_refuses_other_users() {
    if !is_root() {
        return skip("agent_refuses_other_users", "needs root to be two users");
    }
    let lab = Lab::new();
    let user = TestUser::new(&lab);
    let other = TestUser::new(&lab_of_another(&lab));
    let as_user =
        |name: &str, line: &str| lab.run(Path::new("runuser"), &["-u", name, "--", "bash", "-c", line]);
    let agent = our("lhssh-agent").display().to_string();
    let add = our("lhssh-add").display().to_string();
    // Root's build directory may be unreadable for other users.
    std::fs::copy(&agent, lab.path("agent-program")).unwrap();
    std::fs::copy(&add, lab.path("add-program")).unwrap();
    let (agent, add) = (lab.arg("agent-program"), lab.arg("add-program"));
    let socket = lab.arg("open/socket");
    std::fs::create_dir(lab.path("open")).unwrap();
    std::fs::set_permissions(lab.path("open"), std::fs::Permissions::from_mode(0o777)).unwrap();
    let started = as_user(
        &user.name,
        &format!("HOME={} {agent} -s -a {socket}; chmod 666 {socket}", user.home.display()),
    );
    let started = started.ok("agent").text();
    let pid =
        started.split("SSH_AGENT_PID=").nth(1).and_then(|rest| rest.split(';').next()).unwrap().to_owned();
    let list = format!("SSH_AUTH_SOCK={socket} {add} -l");
    let mine = as_user(&user.name, &list);
    let root = lab.sh(&list);
    let theirs = as_user(&other.name, &list);
    let memory = as_user(&user.name, &format!("cat /proc/{pid}/environ"));
    let limits = lab.sh(&format!("grep core /proc/{pid}/limits"));
    lab.sh(&format!("kill {pid}"));
    assert_eq!((mine.code, mine.text().as_str()), (1, "The agent has no identities.\n"), "{}", mine.err);
    assert_eq!(root.text(), "The agent has no identities.\n");
    assert_eq!(theirs.code, 1);
    assert!(
        theirs.err.contains("error fetching identities: communication with agent failed"),
        "{}",
        theirs.err
    );
    assert_ne!(memory.code, 0, "the process can be looked into");
    let limits = limits.text();
    assert_eq!(limits.split_whitespace().nth(4), Some("0"), "{limits}");
}

/// A second user needs a home of its own.
fn lab_of_another(_first: &Lab) -> Lab {
    Lab::new()
}

/// Covers: ssh-add -s
#[test]
fn agent_refuses_hardware_keys_with_a_message() {
    let lab = Lab::new();
    let agent = Agent::ours(&lab, "agent", &["-P", "/usr/lib/*", "-O", "no-restrict-websafe"]);
    let ran = agent.run(&lab, &our("lhssh-add"), &["-s", "/bin/true"]);
    assert_eq!(ran.code, 1);
    assert!(ran.err.contains("Could not add card \"/"), "{}", ran.err);
    let resident = agent.run(&lab, &our("lhssh-add"), &["-K", "-S", "/bin/true"]);
    assert_eq!(resident.code, 1);
    assert!(resident.err.contains("Unable to load resident keys: invalid format"), "{}", resident.err);
    // The agent keeps running after refusals.
    agent.run(&lab, &our("lhssh-add"), &[lab.arg("user_rsa")]).ok("added");
    let extensions = agent.run(&lab, &our("lhssh-add"), &["-Q"]).ok("-Q").text();
    assert_eq!(extensions, "session-bind@openssh.com\n");
}
