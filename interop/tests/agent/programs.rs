//! `lhssh-agent` and `lhssh-add` compared with ssh-agent and ssh-add: same keys, same messages.

use std::path::{Path, PathBuf};

use lh_interop::{Agent, Lab, Ran, our, peers, script};

const KEYS: [&str; 3] = ["user_ed25519", "user_rsa", "user_ecdsa"];

/// Returns exit status and output, which must be equal for all programs.
fn said(ran: &Ran) -> (i32, String, String) {
    (ran.code, ran.text(), ran.err.replace('\r', ""))
}

/// Returns command lines of ssh-add for everyday tasks.
fn everyday(lab: &Lab) -> Vec<Vec<String>> {
    let key = |name: &str| lab.arg(name);
    let list = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
    let mut commands = vec![list(&["-l"]), list(&["-L"])];
    for name in KEYS {
        commands.push(list(&[&key(name)]));
    }
    commands.extend([
        list(&["-l"]),
        list(&["-L"]),
        list(&["-l", "-E", "md5"]),
        list(&["-T", &key("user_ed25519.pub"), &key("user_rsa.pub"), &key("user_ecdsa.pub")]),
        list(&["-d", &key("user_rsa")]),
        list(&["-d", &key("user_rsa")]),
        list(&["-d", &key("user_ecdsa.pub")]),
        list(&["-T", &key("user_ecdsa.pub")]),
        list(&["-l"]),
        list(&["-q", &key("user_rsa")]),
        list(&["-t", "1h", "-c", &key("user_ecdsa")]),
        list(&[&key("missing")]),
        list(&["-D"]),
        list(&["-q", "-D"]),
        list(&["-l"]),
        list(&["-t", "soon", &key("user_rsa")]),
        list(&["-E", "rot13", "-l"]),
        list(&["-l", "-D"]),
        // No default key in this home.
        list(&[]),
    ]);
    commands
}

/// Every pair of agent and client behaves and prints alike.
///
/// Covers: ssh-agent -a; ssh-agent -D; ssh-add -l; ssh-add -L; ssh-add -E; ssh-add -T; ssh-add -d; ssh-add -D; ssh-add -q; ssh-add -t; ssh-add -c
#[test]
fn every_agent_and_client_pair_prints_alike() {
    let Some([ssh_agent, ssh_add]) =
        peers("every_agent_and_client_pair_prints_alike", ["ssh-agent", "ssh-add"])
    else {
        return;
    };
    let lab = Lab::new();
    let mut transcripts: Vec<Vec<(i32, String, String)>> = Vec::new();
    for (index, agent) in [&ssh_agent, &our("lhssh-agent")].into_iter().enumerate() {
        for (number, add) in [&ssh_add, &our("lhssh-add")].into_iter().enumerate() {
            let agent = Agent::start(&lab, agent, &format!("agent{index}{number}"), &[], &[]);
            let run = |words: &Vec<String>| said(&agent.run(&lab, add, words));
            transcripts.push(everyday(&lab).iter().map(run).collect());
        }
    }
    let commands = everyday(&lab);
    for other in &transcripts[1..] {
        for ((expected, found), command) in transcripts[0].iter().zip(other).zip(&commands) {
            // Usage messages differ: programs print their own names.
            if found.2.contains("usage") {
                continue;
            }
            assert_eq!(expected, found, "{command:?}");
        }
    }
}

/// Covers: ssh-add -x; ssh-add -X; wire SSH_AGENTC_LOCK; wire SSH_AGENTC_UNLOCK
#[test]
fn locked_agent_lists_and_signs_nothing() {
    let Some([ssh_agent, ssh_add]) = peers("locked_agent_lists_and_signs_nothing", ["ssh-agent", "ssh-add"])
    else {
        return;
    };
    let lab = Lab::new();
    let ask = askpass(&lab, "secret");
    let wrong = askpass(&lab, "wrong");
    let pairs = [
        (ssh_agent, our("lhssh-add")),
        (our("lhssh-agent"), ssh_add),
        (our("lhssh-agent"), our("lhssh-add")),
    ];
    for (index, (agent, add)) in pairs.iter().enumerate() {
        let agent = Agent::start(&lab, agent, &format!("agent{index}"), &[], &[]);
        agent.run(&lab, add, &[lab.arg("user_ed25519")]).ok("added");
        let with = |ask: &Path, flag: &str| {
            let variable = format!("SSH_ASKPASS={}", ask.display());
            agent.run_env(&lab, &[&variable, "SSH_ASKPASS_REQUIRE=force"], add, &[flag])
        };
        let locked = with(&ask, "-x").ok("locked");
        assert!(locked.err.contains("Agent locked."), "{}", locked.err);
        assert_eq!(agent.run(&lab, add, &["-l"]).text(), "The agent has no identities.\n");
        assert_eq!(agent.run(&lab, add, &["-T", &lab.arg("user_ed25519.pub")]).code, 1);
        let refused = with(&wrong, "-X");
        assert_eq!(refused.code, 1);
        assert!(refused.err.contains("Failed to unlock agent: agent refused operation"), "{}", refused.err);
        let unlocked = with(&ask, "-X").ok("unlocked");
        assert!(unlocked.err.contains("Agent unlocked."), "{}", unlocked.err);
        agent.run(&lab, add, &["-T", &lab.arg("user_ed25519.pub")]).ok("usable again");
    }
}

/// Reads passphrases from an askpass window or standard input, and keys from standard input.
///
/// Covers: ssh-add -
#[test]
fn passphrases_come_from_askpass_or_stdin() {
    let Some([keygen]) = peers("passphrases_come_from_askpass_or_stdin", ["ssh-keygen"]) else {
        return;
    };
    let lab = Lab::new();
    let agent = Agent::ours(&lab, "agent", &[]);
    let add = our("lhssh-add");
    let make = |name: &str, passphrase: &str| {
        let args = ["-q", "-t", "ed25519", "-N", passphrase, "-C", name, "-f", &lab.arg(name)];
        lab.run(&keygen, &args).ok("ssh-keygen");
    };
    make("locked", "secret");
    make("locked2", "secret");
    let ask = askpass(&lab, "secret");
    let variable = format!("SSH_ASKPASS={}", ask.display());
    let force = [variable.as_str(), "SSH_ASKPASS_REQUIRE=force"];
    let ran = agent.run_env(&lab, &force, &add, &[lab.arg("locked"), lab.arg("locked2")]).ok("added");
    assert!(ran.err.contains("Identity added:"), "{}", ran.err);
    // The passphrase of the first key is tried on the second without a prompt.
    assert_eq!(lab.read("asked"), format!("Enter passphrase for {}: \n", lab.arg("locked")));
    let list = agent.run(&lab, &add, &["-l"]).ok("listed").text();
    assert_eq!(list.lines().count(), 2, "{list}");
    let never = ["SSH_ASKPASS_REQUIRE=never"];
    let socket = agent.socket.display();
    let typed = lab.sh(&format!(
        "echo secret | SSH_AUTH_SOCK={socket} setsid -w {} -q {} && SSH_AUTH_SOCK={socket} {} - < {}",
        add.display(),
        lab.arg("locked"),
        add.display(),
        lab.arg("user_rsa")
    ));
    let typed = typed.ok("from standard input");
    assert!(typed.err.contains("Identity added: (stdin) (user_rsa)"), "{}", typed.err);
    assert_eq!(agent.run_env(&lab, &never, &add, &[lab.arg("locked")]).code, 1, "no way to prompt");
    // `-d -` removes the keys of the agent's own list.
    let removed =
        lab.sh(&format!("SSH_AUTH_SOCK={socket} {0} -L | SSH_AUTH_SOCK={socket} {0} -d -", add.display()));
    removed.ok("removed what was listed");
    assert_eq!(agent.run(&lab, &add, &["-l"]).code, 1);
}

/// Covers: ssh-add (exit status 2)
#[test]
fn without_an_agent_the_status_is_2() {
    let lab = Lab::new();
    let none = lab.run(&our("lhssh-add"), &["-l"]);
    assert_eq!(
        (none.code, none.err.trim()),
        (2, "Could not open a connection to your authentication agent.")
    );
    let dead =
        lab.run(Path::new("env"), &["SSH_AUTH_SOCK=/nonexistent", &our("lhssh-add").to_string_lossy(), "-l"]);
    assert_eq!((dead.code, dead.err.trim()), (2, "Error connecting to agent: No such file or directory"));
}

/// Tests the output formats, the socket's path, and the end of the agent.
///
/// Covers: ssh-agent -s; ssh-agent -c; ssh-agent -k; ssh-agent -T; ssh-agent -u; ssh-agent -U; ssh-agent -V
#[test]
fn shells_evaluate_the_output() {
    let lab = Lab::new();
    let agent = our("lhssh-agent").display().to_string();
    let add = our("lhssh-add").display().to_string();
    // In the background, for the Bourne shell: the socket is in the home directory, and -k ends the agent.
    let ran = lab
        .sh(&format!(
            "set -e; eval \"$({agent} -s)\"; {add} -q user_rsa; {add} -l; stat -c %a \"$SSH_AUTH_SOCK\" \
             \"$HOME/.ssh/agent\"; echo \"$SSH_AUTH_SOCK\"; socket=$SSH_AUTH_SOCK; kill -0 $SSH_AGENT_PID; \
             pid=$SSH_AGENT_PID; eval \"$({agent} -s -k)\"; echo \"left:$SSH_AUTH_SOCK$SSH_AGENT_PID\"; \
             for i in $(seq 6000); do test -e $socket || break; sleep 0.01; done; test ! -e $socket; echo gone"
        ))
        .ok("background");
    let text = ran.text();
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("Agent pid ") && lines[1].ends_with("user_rsa (RSA)"), "{text}");
    assert_eq!(lines[2..4], ["600", "700"]);
    assert!(lines[4].contains("/home/.ssh/agent/s.") && lines[4].contains(".agent."), "{text}");
    assert!(lines[5].ends_with(" killed") && lines[6] == "left:" && lines[7] == "gone", "{text}");

    let csh = lab.sh(&format!(
        "{agent} -c -T | tee out; eval $(sed -n 's/^setenv SSH_AGENT_PID \\(.*\\);/kill \\1/p' out)"
    ));
    let csh = csh.ok("csh").text();
    let lines: Vec<&str> = csh.lines().collect();
    let socket = format!("setenv SSH_AUTH_SOCK {}/ssh-", std::env::temp_dir().display());
    assert!(lines[0].starts_with(&socket) && lines[0].contains("/agent."), "{csh}");
    assert!(
        lines[1].starts_with("setenv SSH_AGENT_PID ") && lines[2].starts_with("echo Agent pid "),
        "{csh}"
    );

    let none = lab.sh(&format!("{agent} -k"));
    assert_eq!((none.code, none.err.trim()), (1, "SSH_AGENT_PID not set, cannot kill agent"));
    assert!(lab.sh(&format!("{agent} -V")).ok("-V").err.starts_with("Longhaul_"));
    let taken = lab.sh(&format!("touch there; {agent} -D -a there"));
    assert_eq!(taken.code, 1);
    assert!(taken.err.contains("Address already in use"), "{}", taken.err);

    // A dead agent's socket is removed once it is old enough, unless -U disables the check.
    let stale = lab
        .sh(&format!(
            "set -e; eval \"$({agent} -s)\" >/dev/null; kill -9 $SSH_AGENT_PID; touch -d '1 hour ago' $SSH_AUTH_SOCK; \
             {agent} -U true; test -S $SSH_AUTH_SOCK; {agent} -u; test ! -e $SSH_AUTH_SOCK; echo cleaned"
        ))
        .ok("stale sockets");
    assert_eq!(stale.text(), "cleaned\n");
}

/// An agent started for a command is the command's parent and ends with it.
///
/// Covers: ssh-agent command
#[test]
fn the_agent_of_a_command_ends_with_it() {
    let lab = Lab::new();
    let agent = our("lhssh-agent").display().to_string();
    let add = our("lhssh-add").display().to_string();
    let ran = lab.sh(&format!(
        "{agent} sh -c '{add} -q user_ed25519 && {add} -l && echo $SSH_AGENT_PID $SSH_AUTH_SOCK >where; exit 7'; \
         echo $?; read pid socket <where; for i in $(seq 6000); do kill -0 $pid 2>/dev/null || break; sleep 0.01; done; \
         kill -0 $pid 2>/dev/null && echo lives; test -e $socket && echo lies about; {agent} /nonexistent; echo $?"
    ));
    let text = ran.text();
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].ends_with("user_ed25519 (ED25519)"), "{text}");
    assert_eq!(lines[1..], ["7", "1"], "{text}{}", ran.err);
}

/// ssh-keygen signs with keys that only our agent has.
///
/// Covers: ssh-agent (with ssh-keygen -U and -Y sign)
#[test]
fn ssh_keygen_signs_with_our_agent() {
    let Some([keygen]) = peers("ssh_keygen_signs_with_our_agent", ["ssh-keygen"]) else { return };
    let lab = Lab::new();
    let agent = Agent::ours(&lab, "agent", &[]);
    for authority in ["host_ed25519", "host_rsa", "host_ecdsa"] {
        agent.run(&lab, &our("lhssh-add"), &["-q", &lab.arg(authority)]).ok("added");
        let args = [
            "-q",
            "-U",
            "-s",
            &lab.arg(&format!("{authority}.pub")),
            "-I",
            "id",
            "-n",
            "me",
            &lab.arg("user_rsa.pub"),
        ];
        agent.run(&lab, &keygen, &args).ok("certificate");
        let shown = lab.run(&keygen, &["-L", "-f", &lab.arg("user_rsa-cert.pub")]).ok("-L").text();
        assert!(shown.contains("Signing CA: "), "{shown}");
        lab.write("data", "text");
        let sign =
            ["-Y", "sign", "-n", "file", "-f", &lab.arg(&format!("{authority}.pub")), &lab.arg("data")];
        agent.run(&lab, &keygen, &sign).ok("signed");
        lab.write("allowed", &format!("me {}", lab.read(&format!("{authority}.pub"))));
        let check = format!("{} -Y verify -n file -I me -f allowed -s data.sig <data", keygen.display());
        lab.sh(&check).ok("verified");
        std::fs::remove_file(lab.path("data.sig")).unwrap();
    }
}

/// Writes an askpass program that answers with this text and records its prompts.
pub(super) fn askpass(lab: &Lab, answer: &str) -> PathBuf {
    let path = lab.path(&format!("askpass-{answer}"));
    let log = lab.arg("asked");
    script(&path, &format!("printf '%s\\n' \"$1\" >>{log}\necho {answer}"));
    path
}

/// Covers: ssh-agent -A
#[test]
fn socket_is_put_into_a_directory_of_choice() {
    let lab = Lab::new();
    let report =
        "echo \"$SSH_AUTH_SOCK\"; stat -c %a \"$(dirname \"$SSH_AUTH_SOCK\")\"; test -S \"$SSH_AUTH_SOCK\"";
    let run = |place: &str| {
        let ran = lab.run(&our("lhssh-agent"), &["-A", place, "sh", "-c", report]).ok("lhssh-agent -A");
        ran.text().lines().map(str::to_owned).collect::<Vec<_>>()
    };
    // A user's directory is made, with those above it.
    let made = run(&format!("user:{}/a/b%%", lab.dir().display()));
    assert!(made[0].starts_with(&format!("{}/s.", lab.arg("a/b%"))), "{made:?}");
    assert_eq!(made[1], "700");
    assert!(lab.path("a/b%").exists());
    // In a shared directory, the socket is in a private one, which goes with the agent.
    std::fs::create_dir(lab.path("shared")).unwrap();
    let made = run(&format!("shared:{}", lab.arg("shared")));
    assert!(made[0].starts_with(&format!("{}/ssh-", lab.arg("shared"))), "{made:?}");
    assert_eq!(made[1], "700");
    lh_interop::eventually("the directory is gone", || {
        std::fs::read_dir(lab.path("shared")).unwrap().next().is_none()
    });
    let missing = lab.run(&our("lhssh-agent"), &["-A", "shared:/missing", "true"]);
    assert_eq!(missing.code, 1);
    assert!(missing.err.contains("private socket dir: No such file or directory"), "{}", missing.err);
}
