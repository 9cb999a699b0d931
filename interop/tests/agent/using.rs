//! Clients that log in with keys of an agent: ours with OpenSSH's agent, OpenSSH's with ours.

use std::path::Path;

use lh_interop::{Agent, Inetd, Lab, Ran, me, our, peers};

use super::programs::askpass;

/// Options that know the lab's hosts and no key file, and these.
pub(super) fn options(lab: &Lab, more: &[&str]) -> Vec<String> {
    let mut args: Vec<String> = vec!["-F".into(), "none".into()];
    let known = format!("UserKnownHostsFile={}", lab.arg("known_hosts"));
    let base = [
        known.as_str(),
        "GlobalKnownHostsFile=/dev/null",
        "StrictHostKeyChecking=yes",
        "PreferredAuthentications=publickey",
    ];
    for option in more.iter().chain(&base) {
        args.extend(["-o".to_owned(), (*option).to_owned()]);
    }
    args
}

/// The options, the server and a command.
pub(super) fn login(lab: &Lab, port: u16, user: &str, more: &[&str], command: &str) -> Vec<String> {
    let mut args = options(lab, more);
    args.extend(["-p".into(), port.to_string(), format!("{user}@127.0.0.1"), command.to_owned()]);
    args
}

fn assert_in(ran: &Ran, what: &str) {
    assert_eq!((ran.code, ran.text().as_str()), (0, "in\n"), "{what}: {}", ran.err);
}

/// Covers: ssh_config IdentityAgent; ssh_config IdentitiesOnly; wire SSH_AGENTC_SIGN_REQUEST
#[test]
fn every_key_type_logs_in_through_every_agent() {
    let Some([sshd, ssh_agent, ssh]) =
        peers("every_key_type_logs_in_through_every_agent", ["sshd", "ssh-agent", "ssh"])
    else {
        return;
    };
    let lab = Lab::new();
    let server = Inetd::openssh(&lab, &sshd, "");
    let none = format!("IdentityFile={}", lab.arg("none"));
    let pairs = [(ssh_agent, our("lhssh")), (our("lhssh-agent"), ssh), (our("lhssh-agent"), our("lhssh"))];
    for (index, (program, client)) in pairs.iter().enumerate() {
        let agent = Agent::start(&lab, program, &format!("agent{index}"), &[], &[]);
        for key in ["user_ed25519", "user_rsa", "user_ecdsa"] {
            agent.run(&lab, &our("lhssh-add"), &["-q", "-D"]).ok("emptied");
            agent.run(&lab, &our("lhssh-add"), &["-q", &lab.arg(key)]).ok("added");
            let args = login(&lab, server.port, &me(), &[&none, "BatchMode=yes"], "echo in");
            assert_in(&agent.run(&lab, client, &args), key);
        }
        // The hash of RSA keys is the one that was agreed on.
        agent.run(&lab, &our("lhssh-add"), &["-q", "-D", &lab.arg("user_rsa")]).ok("emptied");
        agent.run(&lab, &our("lhssh-add"), &["-q", &lab.arg("user_rsa")]).ok("added");
        for algorithm in ["rsa-sha2-256", "rsa-sha2-512"] {
            let only = format!("PubkeyAcceptedAlgorithms={algorithm}");
            let args = login(&lab, server.port, &me(), &[&none, &only, "BatchMode=yes"], "echo in");
            assert_in(&agent.run(&lab, client, &args), algorithm);
        }
        // A .pub file names a key of the agent; without one IdentitiesOnly leaves nothing.
        lab.write("only.pub", &lab.read("user_rsa.pub"));
        let named = format!("IdentityFile={}", lab.arg("only.pub"));
        let args =
            login(&lab, server.port, &me(), &[&named, "IdentitiesOnly=yes", "BatchMode=yes"], "echo in");
        assert_in(&agent.run(&lab, client, &args), "IdentitiesOnly");
        let args =
            login(&lab, server.port, &me(), &[&none, "IdentitiesOnly=yes", "BatchMode=yes"], "echo in");
        assert_eq!(agent.run(&lab, client, &args).code, 255);
        // Where the agent is.
        let socket = agent.socket.display().to_string();
        let by_path = format!("IdentityAgent={socket}");
        let variable = format!("ELSEWHERE={socket}");
        for (setting, env, works) in [
            (by_path.as_str(), "A=b", true),
            ("IdentityAgent=$ELSEWHERE", variable.as_str(), true),
            ("IdentityAgent=SSH_AUTH_SOCK", "A=b", false),
            ("IdentityAgent=none", variable.as_str(), false),
        ] {
            let mut words = vec![env.to_owned(), client.display().to_string()];
            words.extend(login(&lab, server.port, &me(), &[&none, setting, "BatchMode=yes"], "echo in"));
            let ran = lab.run(Path::new("env"), &words);
            assert_eq!(ran.code == 0, works, "{setting}: {}", ran.err);
        }
        let args =
            login(&lab, server.port, &me(), &[&none, "IdentityAgent=none", "BatchMode=yes"], "echo in");
        assert_eq!(agent.run(&lab, client, &args).code, 255);
    }
}

/// Covers: ssh_config AddKeysToAgent
#[test]
fn keys_that_log_in_are_added_to_the_agent() {
    let Some([sshd, ssh_agent, keygen]) =
        peers("keys_that_log_in_are_added_to_the_agent", ["sshd", "ssh-agent", "ssh-keygen"])
    else {
        return;
    };
    let lab = Lab::new();
    let server = Inetd::openssh(&lab, &sshd, "");
    // Encrypted, to see that the passphrase is asked for once.
    let encrypt = ["-q", "-p", "-P", "", "-N", "secret", "-f", &lab.arg("user_rsa")];
    lab.run(&keygen, &encrypt).ok("ssh-keygen -p");
    let ask = askpass(&lab, "secret");
    let env = [format!("SSH_ASKPASS={}", ask.display()), "SSH_ASKPASS_REQUIRE=force".to_owned()];
    let env: Vec<&str> = env.iter().map(String::as_str).collect();
    for (index, program) in [ssh_agent, our("lhssh-agent")].iter().enumerate() {
        let agent = Agent::start(&lab, program, &format!("agent{index}"), &[], &[]);
        let list = || agent.run(&lab, &our("lhssh-add"), &["-l"]).text();
        let connect = |key: &str, add: &str| {
            let identity = format!("IdentityFile={}", lab.arg(key));
            let add = format!("AddKeysToAgent={add}");
            let args = login(&lab, server.port, &me(), &[&identity, &add], "echo in");
            assert_in(&agent.run_env(&lab, &env, &our("lhssh"), &args), &add);
        };
        connect("user_rsa", "no");
        assert_eq!(list(), "The agent has no identities.\n");
        connect("user_rsa", "yes");
        assert!(list().contains("user_rsa (RSA)"), "{}", list());
        // Now the agent has it: nobody is asked for the passphrase.
        let _ = std::fs::remove_file(lab.path("asked"));
        connect("user_rsa", "yes");
        assert!(!lab.path("asked").exists());
        connect("user_ecdsa", "1");
        let gone = (0..300).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(50));
            !list().contains("ECDSA")
        });
        assert!(gone, "added for a second: {}", list());
        // Any answer but a no is a yes to a program that asks for permission; "secret" is neither.
        connect("user_ecdsa", "ask");
        assert!(!list().contains("ECDSA"), "{}", list());
        assert!(
            lab.read("asked").contains(&format!("Add key {} (user_ecdsa) to agent?", lab.arg("user_ecdsa")))
        );
    }
}
