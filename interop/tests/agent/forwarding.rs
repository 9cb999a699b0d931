//! Agent forwarding: with Longhaul's client, with its server, with both, and over two hops.

use std::path::Path;

use lh_interop::{Agent, Inetd, Lab, Lhsshd, Ran, TestUser, find, is_root, our, peers, skip};

use super::using::login;

/// A user who may log in by key, with copies of our programs that the user can run.
pub(super) struct Place {
    pub(super) lab: Lab,
    pub(super) user: TestUser,
}

impl Place {
    pub(super) fn new() -> Self {
        let lab = Lab::new();
        let user = TestUser::new(&lab);
        for program in ["lhssh", "lhssh-add"] {
            std::fs::copy(our(program), lab.path(program)).unwrap();
        }
        // Servers read these files with the user's rights.
        lab.sh("chmod 644 authorized_keys known_hosts 2>/dev/null; true").ok("chmod");
        Self { lab, user }
    }

    /// Logs in with `-A`, with the agent's key only.
    pub(super) fn forwarded(
        &self,
        agent: &Agent,
        client: &Path,
        port: u16,
        more: &[&str],
        command: &str,
    ) -> Ran {
        let none = format!("IdentityFile={}", self.lab.arg("none"));
        let mut options = vec![none.as_str(), "BatchMode=yes"];
        options.extend(more);
        let mut args = vec!["-A".to_owned()];
        args.extend(login(&self.lab, port, &self.user.name, &options, command));
        agent.run(&self.lab, client, &args)
    }

    /// Counts the sockets left in the user's home.
    fn sockets(&self) -> usize {
        std::fs::read_dir(self.user.home.join(".ssh/agent")).map_or(0, Iterator::count)
    }

    /// Waits until no socket is left: the server's process ends after the client's.
    fn cleaned(&self) -> bool {
        (0..6000).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(10));
            self.sockets() == 0
        })
    }
}

pub(super) fn ready(test: &str) -> Option<[std::path::PathBuf; 4]> {
    if !is_root() {
        skip(test, "needs root to log in as another user");
        return None;
    }
    peers(test, ["sshd", "ssh-agent", "ssh", "ssh-add"])
}

/// Covers: ssh -A; ssh_config ForwardAgent; sshd_config AllowAgentForwarding; wire auth-agent-req@openssh.com; wire auth-agent@openssh.com; wire agent-req; wire agent-connect
#[test]
fn forwarded_agent_works_at_the_server() {
    let Some([sshd, ssh_agent, ssh, ssh_add]) = ready("forwarded_agent_works_at_the_server") else { return };
    let place = Place::new();
    let lab = &place.lab;
    let theirs = Inetd::openssh(lab, &sshd, "");
    let ours = Lhsshd::start(lab, "");
    let agents = [Agent::start(lab, &ssh_agent, "agent0", &[], &[]), Agent::ours(lab, "agent1", &[])];
    let list =
        format!("{} -l && {} -T {}", ssh_add.display(), ssh_add.display(), lab.arg("user_ed25519.pub"));
    for agent in &agents {
        agent.run(lab, &our("lhssh-add"), &["-q", &lab.arg("user_ed25519")]).ok("added");
        for (client, port) in
            [(our("lhssh"), theirs.port), (ssh.clone(), ours.port), (our("lhssh"), ours.port)]
        {
            let ran = place.forwarded(agent, &client, port, &[], &list);
            assert_eq!(ran.code, 0, "{}: {}", client.display(), ran.err);
            assert!(ran.text().contains("user_ed25519 (ED25519)"), "{}", ran.text());
        }
        let shown = place.forwarded(
            agent,
            &our("lhssh"),
            ours.port,
            &[],
            "echo $SSH_AUTH_SOCK; stat -c '%a %U' $SSH_AUTH_SOCK",
        );
        let text = shown.ok("socket").text();
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].contains("/.ssh/agent/s.") && lines[0].contains(".sshd."), "{text}");
        assert_eq!(lines[1], format!("600 {}", place.user.name));
        // Without a request there is no forwarding.
        let ran =
            place.forwarded(agent, &our("lhssh"), ours.port, &["ForwardAgent=no"], "echo x$SSH_AUTH_SOCK");
        assert!(ran.ok("-A wins").text().starts_with("x/"));
        let identity = format!("IdentityFile={}", lab.arg("user_ed25519"));
        let args = login(lab, ours.port, &place.user.name, &[&identity], "echo x$SSH_AUTH_SOCK");
        assert_eq!(agent.run(lab, &our("lhssh"), &args).ok("no -A").text(), "x\n");
        // Forward another agent than the one that logs in; -a disables it.
        let other = format!("ForwardAgent={}", agent.socket.display());
        let variable = "ForwardAgent=$SSH_AUTH_SOCK";
        for setting in [other.as_str(), variable] {
            let args = login(lab, ours.port, &place.user.name, &[&identity, setting], &list);
            agent.run(lab, &our("lhssh"), &args).ok(setting);
        }
        let mut args = vec!["-a".to_owned()];
        args.extend(login(lab, ours.port, &place.user.name, &[&identity, variable], "echo x$SSH_AUTH_SOCK"));
        assert_eq!(agent.run(lab, &our("lhssh"), &args).ok("-a").text(), "x\n");
    }
    assert!(place.cleaned(), "sockets are left in {}", place.user.home.display());
    // Our two programs use the registered names, which other clients and servers do not know.
    let talk = place.forwarded(&agents[1], &our("lhssh"), ours.port, &["LogLevel=DEBUG1"], "true");
    assert!(talk.err.contains("kex_ext_info: agent-forward=<0>"), "{}", talk.err);
}

/// Covers: sshd_config AllowAgentForwarding; sshd_config DisableForwarding; file authorized_keys no-agent-forwarding; file authorized_keys restrict; file authorized_keys agent-forwarding
#[test]
fn server_rules_limit_agent_forwarding() {
    let Some([_, _, ssh, _]) = ready("server_rules_limit_agent_forwarding") else { return };
    let place = Place::new();
    let lab = &place.lab;
    let agent = Agent::ours(lab, "agent", &[]);
    agent.run(lab, &our("lhssh-add"), &["-q", &lab.arg("user_ed25519")]).ok("added");
    let keys = lab.read("user_ed25519.pub");
    for (config, option, given) in [
        ("", "", true),
        ("AllowAgentForwarding no", "", false),
        ("DisableForwarding yes", "", false),
        ("", "no-agent-forwarding ", false),
        ("", "restrict ", false),
        ("", "restrict,agent-forwarding ", true),
    ] {
        lab.write("authorized_keys", &format!("{option}{keys}"));
        let _ = lab.sh(&format!("chmod 644 {}", lab.arg("authorized_keys")));
        let server = Lhsshd::start(lab, config);
        for client in [&ssh, &our("lhssh")] {
            let ran = place.forwarded(&agent, client, server.port, &[], "echo x$SSH_AUTH_SOCK").ok(config);
            assert_eq!(ran.text() != "x\n", given, "{config} {option} {}", client.display());
        }
    }
}

/// Connects to a first host and from there to a second, with a key that stays on this machine; then with a
/// key constrained to exactly that path.
///
/// Covers: ssh -A (two hops); wire session-bind@openssh.com
#[test]
fn agent_is_forwarded_over_two_hops() {
    let Some([sshd, ssh_agent, ssh, ssh_add]) = ready("agent_is_forwarded_over_two_hops") else { return };
    let place = Place::new();
    let lab = &place.lab;
    let second = Inetd::openssh(lab, &sshd, "");
    let second_ours = Lhsshd::start(lab, "");
    // The first hop has its own host key.
    let keygen = find("ssh-keygen").unwrap_or_default();
    lab.run(&keygen, &["-q", "-t", "ed25519", "-N", "", "-f", &lab.arg("first_key")]).ok("ssh-keygen");
    let text = format!(
        "HostKey {}\nAuthorizedKeysFile {}\nStrictModes no\nPidFile none\n",
        lab.arg("first_key"),
        lab.arg("authorized_keys")
    );
    lab.write("first.conf", &text);
    let flags = ["-i".to_owned(), "-e".into(), "-f".into(), lab.arg("first.conf")];
    let first_theirs = Inetd::start(lab, &sshd, &flags);
    let first_ours = Inetd::start(lab, &our("lhsshd"), &flags);
    let mut known = lab.read("known_hosts");
    for port in [first_theirs.port, first_ours.port] {
        known.push_str(&format!("[127.0.0.1]:{port} {}", lab.read("first_key.pub")));
    }
    lab.write("known_hosts", &known);
    lab.sh("chmod 644 known_hosts authorized_keys").ok("chmod");
    // The names of the two hosts for the constraints.
    let named = format!("first {}second {}", lab.read("first_key.pub"), lab.read("host_ed25519.pub"));
    lab.write("named", &named);
    let user = &place.user.name;
    for (index, program) in [ssh_agent, our("lhssh-agent")].iter().enumerate() {
        let agent = Agent::start(lab, program, &format!("agent{index}"), &[], &[]);
        for constraints in [&[][..], &["first", "first>second"], &["first"]] {
            agent.run(lab, &our("lhssh-add"), &["-q", "-D"]).ok("emptied");
            let mut args = vec!["-q".to_owned(), "-H".into(), lab.arg("named")];
            for constraint in constraints {
                args.extend(["-h".to_owned(), (*constraint).to_owned()]);
            }
            args.push(lab.arg("user_ed25519"));
            let add = if index == 0 { ssh_add.clone() } else { our("lhssh-add") };
            agent.run(lab, &add, &args).ok("added");
            let beyond = constraints.len() != 1;
            for (first, middle, last) in [
                (first_ours.port, our_path(lab, "lhssh"), second.port),
                (first_ours.port, ssh.clone(), second_ours.port),
                (first_theirs.port, our_path(lab, "lhssh"), second_ours.port),
            ] {
                let none = format!("IdentityFile={}", lab.arg("none"));
                let options = [none.as_str(), "BatchMode=yes", "HostKeyAlgorithms=ssh-ed25519"];
                let inner = login(lab, last, user, &options, "echo $((6*7))");
                let inner: Vec<String> = inner.iter().map(|word| format!("'{word}'")).collect();
                let command = format!("{} {}", middle.display(), inner.join(" "));
                let ran = place.forwarded(
                    &agent,
                    &our("lhssh"),
                    first,
                    &["HostKeyAlgorithms=ssh-ed25519"],
                    &command,
                );
                let what = format!("{} {constraints:?} {}: {}", program.display(), middle.display(), ran.err);
                assert_eq!(ran.text() == "42\n", beyond, "{what}");
                assert_eq!(ran.code == 0, beyond, "{what}");
            }
        }
    }
    assert!(place.cleaned(), "sockets are left in {}", place.user.home.display());
}

/// Returns a copy of our program that the test's user can run.
fn our_path(lab: &Lab, name: &str) -> std::path::PathBuf {
    lab.path(name)
}

/// Sixty agent connections at once over one session: all are served, and no socket is left.
///
/// Covers: ssh -a
#[test]
fn sixty_agent_connections_leave_no_socket() {
    let Some([_, _, _, ssh_add]) = ready("sixty_agent_connections_leave_no_socket") else { return };
    let place = Place::new();
    let lab = &place.lab;
    let server = Lhsshd::start(lab, "");
    let agent = Agent::ours(lab, "agent", &[]);
    agent.run(lab, &our("lhssh-add"), &["-q", &lab.arg("user_ed25519")]).ok("added");
    let each = format!("{} -T {}", ssh_add.display(), lab.arg("user_ed25519.pub"));
    let command = format!("for i in $(seq 60); do ({each} || echo failed) & done; wait; echo done");
    let ran = place.forwarded(&agent, &our("lhssh"), server.port, &[], &command).ok("many");
    assert_eq!(ran.text(), "done\n", "{}", ran.err);
    assert!(place.cleaned());
}
