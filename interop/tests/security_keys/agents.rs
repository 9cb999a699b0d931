//! Agents that sign with security keys: Longhaul's and OpenSSH's, with keys added by either ssh-add.

use std::path::Path;

use lh_interop::{Agent, Lhsshd, Ran, our, peers};

use super::token::Token;
use super::{KINDS, assert_in};

/// Starts an agent that may load the library.
fn agent(token: &Token, program: &Path, name: &str, flags: &[&str]) -> Agent {
    let variables = token.environment();
    let variables: Vec<_> = variables.iter().filter_map(|word| word.split_once('=')).collect();
    let allowed = format!("{}/*", token.lab.dir().canonicalize().unwrap().display());
    let flags = [&["-P", &allowed][..], flags].concat();
    Agent::start(&token.lab, program, name, &flags, &variables)
}

/// Runs a program with the agent and the emulated hardware.
fn run(token: &Token, agent: &Agent, program: &Path, args: &[&str]) -> Ran {
    let socket = format!("SSH_AUTH_SOCK={}", agent.socket.display());
    token.run_env(&[&socket], program, args)
}

/// Logs in with the agent's keys.
fn login(token: &Token, agent: &Agent, client: &Path, port: u16) -> Ran {
    let socket = format!("IdentityAgent={}", agent.socket.display());
    let options = [socket.as_str(), "IdentitiesOnly=no", "SecurityKeyProvider=/none.so"];
    token.login(client, port, "none", &options)
}

/// Covers: ssh-add -S; ssh-add -K; ssh-agent -P
#[test]
fn every_agent_uses_keys_in_hardware() {
    let Some([ssh, ssh_agent, ssh_add]) =
        peers("every_agent_uses_keys_in_hardware", ["ssh", "ssh-agent", "ssh-add"])
    else {
        return;
    };
    let Some(mut token) = Token::new("every_agent_uses_keys_in_hardware") else { return };
    token.pin = Some("1234");
    token.answer("1234");
    let server = Lhsshd::start(&token.lab, "");
    for kind in KINDS {
        token.make(&our("lhssh-keygen"), kind, kind, &["resident", &format!("user={kind}")]);
    }
    token.make(&our("lhssh-keygen"), "ed25519-sk", "pin", &["verify-required"]);
    let provider = token.provider.display().to_string();
    for (name, program, add) in [
        ("ours", our("lhssh-agent"), ssh_add.clone()),
        ("theirs", ssh_agent, our("lhssh-add")),
        ("both", our("lhssh-agent"), our("lhssh-add")),
    ] {
        let agent = agent(&token, &program, name, &[]);
        for key in [KINDS[0], KINDS[1], "pin"] {
            run(&token, &agent, &add, &["-q", "-D"]).ok("emptied");
            run(&token, &agent, &add, &["-S", &provider, key]).ok("added");
            token.lab.write("authorized_keys", &token.lab.read(&format!("{key}.pub")));
            token.asked();
            for client in [&our("lhssh"), &ssh] {
                assert_in(&login(&token, &agent, client, server.port), &format!("{key} in {name}"));
            }
            // The agent prompts with an askpass window.
            let asked = token.asked();
            assert_eq!(asked.contains("Enter PIN"), key == "pin", "{name} {key}: {asked}");
        }
        // Resident keys need no file.
        run(&token, &agent, &add, &["-q", "-D"]).ok("emptied");
        let said = run(&token, &agent, &add, &["-K"]).ok("-K");
        assert_eq!(said.err.matches("Resident identity added: ").count(), 2, "{}", said.err);
        let listed = run(&token, &agent, &add, &["-l"]).text();
        assert!(listed.contains("(ED25519-SK)") && listed.contains("(ECDSA-SK)"), "{listed}");
        token.lab.write("authorized_keys", &token.lab.read("ecdsa-sk.pub"));
        assert_in(&login(&token, &agent, &our("lhssh"), server.port), &format!("listed, in {name}"));
    }
}

/// Covers: ssh-agent -P; ssh-agent -O
#[test]
fn agent_limits_fido_libraries_and_applications() {
    let Some(token) = Token::new("agent_limits_fido_libraries_and_applications") else { return };
    token.make(&our("lhssh-keygen"), "ed25519-sk", "key", &[]);
    let provider = token.provider.display().to_string();
    let ours = our("lhssh-add");
    // Libraries must be below /usr, unless -P says otherwise.
    let careful = Agent::ours(&token.lab, "careful", &[]);
    let refused = run(&token, &careful, &ours, &["-S", &provider, "key"]);
    assert_eq!(refused.code, 1);
    assert!(
        refused.err.contains("Could not add identity \"key\": agent refused operation"),
        "{}",
        refused.err
    );
    // A library that crashes does not end the agent.
    let agent = agent(&token, &our("lhssh-agent"), "agent", &[]);
    run(&token, &agent, &ours, &["-q", "-S", &provider, "key"]).ok("added");
    run(&token, &agent, &ours, &["-q", &token.lab.arg("user_ed25519")]).ok("added");
    std::fs::write(&token.provider, "no library any more").unwrap();
    let server = Lhsshd::start(&token.lab, "");
    token.lab.write("authorized_keys", &token.lab.read("key.pub"));
    assert_eq!(login(&token, &agent, &our("lhssh"), server.port).code, 255);
    token.lab.write("authorized_keys", &token.lab.read("user_ed25519.pub"));
    assert_in(&login(&token, &agent, &our("lhssh"), server.port), "the other key");
}
