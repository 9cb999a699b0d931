//! Clients that log in with an agent's keys: Longhaul's client with OpenSSH's agent, and OpenSSH's client
//! with Longhaul's.

use std::path::Path;

use lh_agent::{IdentityEntry, Reply, Request};
use lh_crypto::{Hash, KeyType, PrivateKey, PublicKey};
use lh_interop::{Agent, Inetd, Lab, Ran, me, our, peers};
use lh_wire::{Reader, Writer as _};

use super::programs::askpass;

/// Returns options with the lab's known hosts and no key file, then `more`.
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

/// Returns the options, the server and a command.
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
        // RSA keys sign with the negotiated hash.
        agent.run(&lab, &our("lhssh-add"), &["-q", "-D", &lab.arg("user_rsa")]).ok("emptied");
        agent.run(&lab, &our("lhssh-add"), &["-q", &lab.arg("user_rsa")]).ok("added");
        for algorithm in ["rsa-sha2-256", "rsa-sha2-512"] {
            let only = format!("PubkeyAcceptedAlgorithms={algorithm}");
            let args = login(&lab, server.port, &me(), &[&none, &only, "BatchMode=yes"], "echo in");
            assert_in(&agent.run(&lab, client, &args), algorithm);
        }
        // A .pub file selects a key of the agent; without one IdentitiesOnly leaves none.
        lab.write("only.pub", &lab.read("user_rsa.pub"));
        let named = format!("IdentityFile={}", lab.arg("only.pub"));
        let args =
            login(&lab, server.port, &me(), &[&named, "IdentitiesOnly=yes", "BatchMode=yes"], "echo in");
        assert_in(&agent.run(&lab, client, &args), "IdentitiesOnly");
        let args =
            login(&lab, server.port, &me(), &[&none, "IdentitiesOnly=yes", "BatchMode=yes"], "echo in");
        assert_eq!(agent.run(&lab, client, &args).code, 255);
        // The ways to name the agent's socket.
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

/// No hardware: an agent of ours signs as a security key does, with the touch flag set.
///
/// Covers: wire sk-ssh-ed25519@openssh.com; wire sk-ecdsa-sha2-nistp256@openssh.com; ssh_config PubkeyAcceptedAlgorithms
#[test]
fn security_keys_log_in_through_an_agent() {
    let Some([sshd]) = peers("security_keys_log_in_through_an_agent", ["sshd"]) else { return };
    let lab = Lab::new();
    let server = Inetd::openssh(&lab, &sshd, "");
    for (key_type, curve) in [
        (KeyType::Ed25519, "sk-ssh-ed25519@openssh.com"),
        (KeyType::EcdsaP256, "sk-ecdsa-sha2-nistp256@openssh.com"),
    ] {
        let inner = PrivateKey::generate(key_type, None).unwrap();
        let mut fields = Reader::new(inner.public().blob());
        let _ = fields.text().unwrap();
        let mut blob = Vec::new();
        blob.put_string(curve.as_bytes());
        blob.put_bytes(fields.rest());
        blob.put_string(b"ssh:");
        let public = PublicKey::from_blob(&blob).unwrap();
        lab.write("authorized_keys", &public.to_openssh_line("security key"));
        lab.write("sk.pub", &public.to_openssh_line("security key"));
        let socket = lab.path(&format!("agent-{curve}"));
        let listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let _ = answer(client, &inner, &blob);
            }
        });
        let (agent, named) =
            (format!("IdentityAgent={}", socket.display()), format!("IdentityFile={}", lab.arg("sk.pub")));
        let args = login(
            &lab,
            server.port,
            &me(),
            &[&agent, &named, "IdentitiesOnly=yes", "BatchMode=yes"],
            "echo in",
        );
        assert_in(&lab.run(&our("lhssh"), &args), curve);
    }
}

/// Acts as an agent with one key, whose signatures have the form of a security key's (OpenSSH's
/// PROTOCOL.u2f).
fn answer(
    mut client: std::os::unix::net::UnixStream,
    inner: &PrivateKey,
    blob: &[u8],
) -> std::io::Result<()> {
    use std::io::{Read as _, Write as _};
    loop {
        let mut len = [0; 4];
        client.read_exact(&mut len)?;
        let mut body = vec![0; u32::from_be_bytes(len) as usize];
        client.read_exact(&mut body)?;
        let reply = match Request::parse(&body) {
            Ok(Request::Identities) => {
                Reply::Identities(vec![IdentityEntry { blob: blob.to_vec(), comment: "sk".to_owned() }])
            }
            Ok(Request::Sign { key, data, .. }) if key == blob => {
                let (touched, counter) = (1_u8, 7_u32);
                let mut signed = Hash::Sha256.digest(&[b"ssh:"]).as_ref().to_vec();
                signed.put_u8(touched);
                signed.put_u32(counter);
                signed.put_bytes(Hash::Sha256.digest(&[data]).as_ref());
                let algorithm = inner.public().signature_algorithms()[0];
                let plain = inner.sign(algorithm, &signed).unwrap();
                let mut plain = Reader::new(&plain);
                let _ = plain.string().unwrap();
                let mut signature = Vec::new();
                signature.put_string(Reader::new(blob).string().unwrap());
                signature.put_string(plain.string().unwrap());
                signature.put_u8(touched);
                signature.put_u32(counter);
                Reply::Signature(signature)
            }
            _ => Reply::Failure,
        };
        client.write_all(&lh_agent::frame(&reply.encode()))?;
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
    // Encrypted, to check that the passphrase is prompted for once.
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
            let options = [identity.as_str(), &add, "IdentitiesOnly=yes", "LogLevel=DEBUG1"];
            let args = login(&lab, server.port, &me(), &options, "echo in");
            let ran = agent.run_env(&lab, &env, &our("lhssh"), &args);
            assert_in(&ran, &add);
            ran.err.contains(&format!("identity added to agent: {}", lab.arg(key)))
        };
        assert!(!connect("user_rsa", "no"));
        assert_eq!(list(), "The agent has no identities.\n");
        assert!(connect("user_rsa", "yes"));
        assert!(list().contains("user_rsa (RSA)"), "{}", list());
        // Now the agent has the key: there is no prompt for the passphrase.
        let _ = std::fs::remove_file(lab.path("asked"));
        assert!(!connect("user_rsa", "yes"));
        assert!(!lab.path("asked").exists());
        assert!(connect("user_ecdsa", "1"));
        let gone = (0..300).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(50));
            !list().contains("ECDSA")
        });
        assert!(gone, "added for a second: {}", list());
        // Any answer except yes means no.
        assert!(!connect("user_ecdsa", "ask"));
        assert!(!list().contains("ECDSA"), "{}", list());
        let asked = lab.read("asked");
        assert!(
            asked.contains(&format!("Add key {} (user_ecdsa) to agent?", lab.arg("user_ecdsa"))),
            "{asked}"
        );
    }
}
