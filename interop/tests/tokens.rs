//! Keys of PKCS#11 tokens, with a token in software (SoftHSM). Longhaul's programs list, use and hold them,
//! with OpenSSH's server and Longhaul's. OpenSSH's programs use them through Longhaul's agent.

use std::path::{Path, PathBuf};

use lh_interop::{Agent, Inetd, Lab, Lhsshd, Ran, our, peers, skip};

const LIBRARY: &str = "/usr/lib/softhsm/libsofthsm2.so";
const PIN: &str = "1234";
/// Labels of the keys.
const RSA: &str = "rsa";
const EC: &str = "ec";
const ED: &str = "ed";

/// A token with keys, and the environment for programs that use it.
struct Token {
    lab: Lab,
    tool: PathBuf,
}

impl Token {
    /// Creates the token. Skips the test and returns `None` if something is missing.
    fn new(test: &str) -> Option<Self> {
        let [util, tool] = peers(test, ["softhsm2-util", "pkcs11-tool"])?;
        if !Path::new(LIBRARY).exists() {
            skip(test, "not installed: libsofthsm2");
            return None;
        }
        let lab = Lab::new();
        std::fs::create_dir(lab.path("tokens")).unwrap();
        let settings = format!(
            "directories.tokendir = {}\nobjectstore.backend = file\nlog.level = ERROR\n",
            lab.arg("tokens")
        );
        lab.write("softhsm2.conf", &settings);
        let token = Self { lab, tool };
        let init = ["--init-token", "--free", "--label", "my card", "--so-pin", "12345678", "--pin", PIN];
        token.run(&util, &init).ok("softhsm2-util");
        token.answer(PIN);
        Some(token)
    }

    /// Generates a key in the token.
    fn generate(&self, id: &str, label: &str, kind: &str, more: &[&str]) {
        let base = ["--module", LIBRARY, "--login", "--pin", PIN, "--keypairgen", "--key-type", kind];
        let named = ["--id", id, "--label", label];
        self.run(&self.tool, &[&base[..], &named, more].concat()).ok("pkcs11-tool");
    }

    fn generate_all(&self) {
        self.generate("01", RSA, "rsa:2048", &[]);
        self.generate("02", EC, "EC:prime256v1", &[]);
        self.generate("03", ED, "EC:edwards25519", &[]);
    }

    /// Sets the answer to all prompts.
    fn answer(&self, text: &str) {
        let script = format!("echo \"$1\" >>{}\necho '{text}'", self.lab.arg("asked"));
        lh_interop::script(&self.lab.path("askpass"), &script);
    }

    /// Returns the prompts since the last call.
    fn asked(&self) -> String {
        let asked = std::fs::read_to_string(self.lab.path("asked")).unwrap_or_default();
        let _ = std::fs::remove_file(self.lab.path("asked"));
        asked
    }

    fn environment(&self) -> Vec<String> {
        vec![
            format!("SOFTHSM2_CONF={}", self.lab.arg("softhsm2.conf")),
            format!("SSH_ASKPASS={}", self.lab.arg("askpass")),
            "SSH_ASKPASS_REQUIRE=force".to_owned(),
        ]
    }

    fn run(&self, program: &Path, args: &[&str]) -> Ran {
        self.run_env(&[], program, args)
    }

    /// Runs a program with the token and more variables.
    fn run_env(&self, more: &[&str], program: &Path, args: &[&str]) -> Ran {
        let mut words = self.environment();
        words.extend(more.iter().map(|&word| word.to_owned()));
        let ran = self.lab.run_env(&words, program, args);
        Ran { err: ran.err.replace('\r', ""), ..ran }
    }

    fn agent(&self, program: &Path, name: &str, flags: &[&str]) -> Agent {
        let variables = self.environment();
        let variables: Vec<_> = variables.iter().filter_map(|word| word.split_once('=')).collect();
        Agent::start(&self.lab, program, name, flags, &variables)
    }

    /// Runs a program with the agent and the token.
    fn with(&self, agent: &Agent, program: &Path, args: &[&str]) -> Ran {
        self.run_env(&[&format!("SSH_AUTH_SOCK={}", agent.socket.display())], program, args)
    }

    /// The public key with this label, as a line of authorized_keys.
    #[track_caller]
    fn public(&self, label: &str) -> String {
        let listed = self.run(&our("lhssh-keygen"), &["-D", LIBRARY]).ok("lhssh-keygen -D").text();
        let line = listed.lines().find(|line| line.ends_with(&format!(" {label}")));
        format!("{}\n", line.unwrap_or_else(|| panic!("no {label} in {listed}")))
    }

    /// Logs in, by default only with the token's keys.
    fn login(&self, client: &Path, port: u16, options: &[&str]) -> Ran {
        let mut args = vec!["-F".to_owned(), "none".to_owned(), "-p".to_owned(), port.to_string()];
        let base = [
            format!("UserKnownHostsFile={}", self.lab.arg("known_hosts")),
            "GlobalKnownHostsFile=/dev/null".to_owned(),
            "StrictHostKeyChecking=yes".to_owned(),
            "PreferredAuthentications=publickey".to_owned(),
            format!("IdentityFile={}", self.lab.arg("none")),
        ];
        for option in options.iter().copied().chain(base.iter().map(String::as_str)) {
            args.extend(["-o".to_owned(), option.to_owned()]);
        }
        args.extend([format!("{}@127.0.0.1", lh_interop::me()), "echo in".to_owned()]);
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        self.run(client, &args)
    }
}

#[track_caller]
fn assert_in(ran: &Ran, what: &str) {
    assert_eq!((ran.code, ran.text().as_str()), (0, "in\n"), "{what}: {}", ran.err);
}

/// True while a process has children.
fn has_children(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).is_ok_and(|text| !text.is_empty())
        || std::fs::read_dir(format!("/proc/{pid}/task")).is_ok_and(|threads| {
            threads.flatten().any(|thread| {
                std::fs::read_to_string(thread.path().join("children")).is_ok_and(|text| !text.is_empty())
            })
        })
}

/// Covers: ssh -I; ssh_config PKCS11Provider; ssh-keygen -D
#[test]
fn token_keys_log_in_at_both_servers() {
    let test = "token_keys_log_in_at_both_servers";
    let Some([sshd, keygen]) = peers(test, ["sshd", "ssh-keygen"]) else { return };
    let Some(token) = Token::new(test) else { return };
    token.generate_all();
    let theirs = Inetd::openssh(&token.lab, &sshd, "");
    let ours = Lhsshd::start(&token.lab, "");
    let keyword = format!("PKCS11Provider={LIBRARY}");
    // OpenSSH 9.2 lists RSA and ECDSA keys only.
    let listed = token.run(&keygen, &["-D", LIBRARY]).ok("ssh-keygen -D").text();
    for label in [RSA, EC] {
        assert!(listed.contains(token.public(label).trim_end()), "{listed}");
    }
    for label in [RSA, EC, ED] {
        token.lab.write("authorized_keys", &token.public(label));
        for port in [theirs.port, ours.port] {
            token.asked();
            assert_in(&token.login(&our("lhssh"), port, &[&keyword]), label);
            assert_eq!(token.asked(), "Enter PIN for 'my card': \n");
            let refused = token.login(&our("lhssh"), port, &[&keyword, "BatchMode=yes"]);
            assert_eq!((refused.code, token.asked().as_str()), (255, ""), "{}", refused.err);
            assert!(refused.err.contains("signing failed for"), "{}", refused.err);
        }
    }
    // One wrong PIN is one try of the token's counter.
    token.answer("4321");
    let refused = token.login(&our("lhssh"), ours.port, &[&keyword]);
    assert_eq!((refused.code, token.asked().lines().count()), (255, 1), "{}", refused.err);
    assert!(refused.err.contains("PKCS#11 login failed: PIN incorrect"), "{}", refused.err);
    token.answer(PIN);
    // `none` on the command line overrides; with IdentitiesOnly only configured keys are tried.
    for options in [&["PKCS11Provider=none", &keyword][..], &[&keyword, "IdentitiesOnly=yes"]] {
        let refused = token.login(&our("lhssh"), ours.port, options);
        assert_eq!((refused.code, token.asked().as_str()), (255, ""), "{}", refused.err);
    }
    token.lab.write("configured.pub", &token.public(ED));
    let configured = format!("IdentityFile={}", token.lab.arg("configured.pub"));
    assert_in(
        &token.login(&our("lhssh"), ours.port, &[&keyword, "IdentitiesOnly=yes", &configured]),
        "configured",
    );
    // The flag does what the keyword does.
    token.asked();
    let port = ours.port.to_string();
    let known = format!("UserKnownHostsFile={}", token.lab.arg("known_hosts"));
    let args = ["-F", "none", "-p", &port, "-I", LIBRARY, "-o", &known, "127.0.0.1", "echo in"];
    assert_in(&token.run(&our("lhssh"), &args), "-I");
    assert_eq!(token.asked(), "Enter PIN for 'my card': \n");
}

#[test]
fn unusable_token_library_leaves_other_keys() {
    let test = "unusable_token_library_leaves_other_keys";
    let Some(token) = Token::new(test) else { return };
    let ours = Lhsshd::start(&token.lab, "");
    let file = token.lab.arg("file");
    token.run(&our("lhssh-keygen"), &["-q", "-t", "ed25519", "-N", "", "-f", &file]).ok("a key");
    token.lab.write("authorized_keys", &token.lab.read("file.pub"));
    token.lab.write("text.so", "no library\n");
    let identity = format!("IdentityFile={file}");
    for (library, said) in [
        (token.lab.arg("text.so"), "dlopen"),
        ("/nonexistent/p11.so".to_owned(), "dlopen"),
        // A library of another kind.
        ("/lib/x86_64-linux-gnu/libc.so.6".to_owned(), "C_GetFunctionList"),
        // An empty token.
        (LIBRARY.to_owned(), ""),
    ] {
        if library.starts_with("/lib/") && !Path::new(&library).exists() {
            continue;
        }
        let ran = token.login(&our("lhssh"), ours.port, &[&format!("PKCS11Provider={library}"), &identity]);
        assert_in(&ran, &library);
        assert!(ran.err.contains(said), "{library}: {}", ran.err);
        let listed = token.run(&our("lhssh-keygen"), &["-D", &library]);
        assert_eq!(listed.code, 255);
        assert!(listed.err.contains("cannot read public key from pkcs11"), "{}", listed.err);
    }
}

/// Covers: ssh-add -s; ssh-add -C; ssh-add -P; ssh-add -d
#[test]
fn token_certificates_are_added_beside_plain_files() {
    let test = "token_certificates_are_added_beside_plain_files";
    let Some(token) = Token::new(test) else { return };
    token.generate("02", EC, "EC:prime256v1", &[]);
    token.lab.write("ec.pub", &token.public(EC));
    let (ca, plain) = (token.lab.arg("user_ed25519"), token.lab.arg("ec.pub"));
    let certificate = token.lab.arg("ec-cert.pub");
    token.run(&our("lhssh-keygen"), &["-q", "-s", &ca, "-I", "id", "-n", "me", &plain]).ok("-s");
    let agent = token.agent(&our("lhssh-agent"), "agent", &[]);
    let add = |args: &[&str]| token.with(&agent, &our("lhssh-add"), args);
    let count = || add(&["-L"]).text().lines().count();
    // Plain keys among the files are skipped.
    add(&["-q", "-C", "-s", LIBRARY, &plain, &certificate]).ok("ssh-add -C -s");
    assert_eq!(count(), 1);
    add(&["-T", &certificate]).ok("the certificate");
    add(&["-q", "-D"]).ok("ssh-add -D");
    add(&["-q", "-s", LIBRARY, &plain, &certificate]).ok("ssh-add -s");
    assert_eq!(count(), 2);
    // The certificate stays when the plain key is removed.
    add(&["-q", "-d", &plain]).ok("ssh-add -d");
    assert_eq!(count(), 1);
    add(&["-T", &certificate]).ok("the certificate");
    add(&["-q", "-D"]).ok("ssh-add -D");
    assert_eq!(add(&["-q", "-s", LIBRARY, "/missing"]).code, 1);
    // Without a PIN this token shows no keys, and nothing is asked.
    token.asked();
    let _ = add(&["-q", "-P", "-s", LIBRARY]);
    assert_eq!(token.asked(), "");
}

/// Covers: ssh-add -s; ssh-add -e; ssh-agent -P
#[test]
fn agent_signs_with_token_and_keeps_no_pin() {
    let test = "agent_signs_with_token_and_keeps_no_pin";
    let Some([sshd, ssh, ssh_add]) = peers(test, ["sshd", "ssh", "ssh-add"]) else { return };
    let Some(token) = Token::new(test) else { return };
    token.generate_all();
    let theirs = Inetd::openssh(&token.lab, &sshd, "");
    let ours = Lhsshd::start(&token.lab, "");
    let agent = token.agent(&our("lhssh-agent"), "agent", &[]);
    let socket = format!("IdentityAgent={}", agent.socket.display());
    let lines: Vec<String> = [RSA, EC, ED].map(|label| token.public(label)).to_vec();
    for add in [&our("lhssh-add"), &ssh_add] {
        token.asked();
        let added = token.with(&agent, add, &["-s", LIBRARY]).ok("ssh-add -s");
        assert!(added.err.contains("Card added: "), "{}", added.err);
        assert_eq!(token.asked(), "Enter passphrase for PKCS#11: \n");
        let listed = token.with(&agent, add, &["-L"]).ok("ssh-add -L").text();
        assert!(lines.iter().all(|line| listed.contains(line.as_str())), "{listed}");
        for line in &lines {
            token.lab.write("authorized_keys", line);
            for client in [&our("lhssh"), &ssh] {
                for port in [theirs.port, ours.port] {
                    assert_in(&token.login(client, port, &[&socket]), line);
                }
            }
        }
        assert_eq!(token.asked(), "", "the helper stays logged in");
        assert!(has_children(agent.pid()), "one helper");
        let removed = token.with(&agent, add, &["-e", LIBRARY]).ok("ssh-add -e");
        assert!(removed.err.contains("Card removed: "), "{}", removed.err);
        assert_eq!(token.with(&agent, add, &["-l"]).code, 1);
        let ended = (0..6000).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(10));
            !has_children(agent.pid())
        });
        assert!(ended, "the helper outlives its keys");
        assert_ne!(token.with(&agent, add, &["-e", LIBRARY]).code, 0, "nothing is left to remove");
    }
    // Constraints apply as to other keys; a locked agent hides and refuses them.
    token.with(&agent, &our("lhssh-add"), &["-c", "-s", LIBRARY]).ok("ssh-add -c -s");
    token.asked();
    token.answer("no");
    assert_eq!(token.login(&our("lhssh"), ours.port, &[&socket]).code, 255);
    assert!(token.asked().contains("Allow use of key "));
    token.answer(PIN);
    token.with(&agent, &our("lhssh-add"), &["-x"]).ok("ssh-add -x");
    assert_eq!(token.with(&agent, &our("lhssh-add"), &["-l"]).code, 1);
    assert_ne!(token.with(&agent, &our("lhssh-add"), &["-s", LIBRARY]).code, 0);
    token.with(&agent, &our("lhssh-add"), &["-X"]).ok("ssh-add -X");
    // A wrong PIN, and a library outside the allowed directories.
    token.answer("4321");
    token.with(&agent, &our("lhssh-add"), &["-D"]).ok("ssh-add -D");
    assert_eq!(token.with(&agent, &our("lhssh-add"), &["-s", LIBRARY]).code, 1);
    token.answer(PIN);
    let strict = token.agent(&our("lhssh-agent"), "strict", &["-P", "/opt/*"]);
    let refused = token.with(&strict, &our("lhssh-add"), &["-s", LIBRARY]);
    assert_eq!(refused.code, 1);
    assert!(refused.err.contains("Could not add card"), "{}", refused.err);
    assert_eq!(token.with(&strict, &our("lhssh-add"), &["-l"]).code, 1);
}

#[test]
fn token_authority_certifies_and_its_user_logs_in() {
    let test = "token_authority_certifies_and_its_user_logs_in";
    let Some([sshd, keygen]) = peers(test, ["sshd", "ssh-keygen"]) else { return };
    let Some(token) = Token::new(test) else { return };
    token.generate_all();
    for (authority, user) in [(RSA, EC), (EC, ED), (ED, RSA)] {
        token.lab.write("ca.pub", &token.public(authority));
        token.lab.write("user.pub", &token.public(user));
        let (ca, file) = (token.lab.arg("ca.pub"), token.lab.arg("user.pub"));
        token.asked();
        let me = lh_interop::me();
        let args = ["-q", "-s", &ca, "-D", LIBRARY, "-I", "id", "-n", &me, &file];
        token.run(&our("lhssh-keygen"), &args).ok("lhssh-keygen -s -D");
        assert_eq!(token.asked(), "Enter PIN for 'my card': \n");
        let certificate = token.lab.arg("user-cert.pub");
        let shown = token.run(&keygen, &["-L", "-f", &certificate]).ok("ssh-keygen -L").text();
        assert!(shown.contains("Key ID: \"id\""), "{shown}");
        token.lab.write("authorized_keys", &format!("cert-authority {}", token.public(authority)));
        let theirs = Inetd::openssh(&token.lab, &sshd, "");
        let options = [format!("PKCS11Provider={LIBRARY}"), format!("CertificateFile={certificate}")];
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        assert_in(&token.login(&our("lhssh"), theirs.port, &options), user);
        // An agent gets the certificate with the token's keys.
        let agent = token.agent(&our("lhssh-agent"), user, &[]);
        token.with(&agent, &our("lhssh-add"), &["-C", "-s", LIBRARY, &certificate]).ok("ssh-add -C -s");
        let listed = token.with(&agent, &our("lhssh-add"), &["-L"]).ok("ssh-add -L").text();
        assert_eq!(listed.lines().count(), 1, "{listed}");
        let socket = format!("IdentityAgent={}", agent.socket.display());
        assert_in(&token.login(&our("lhssh"), theirs.port, &[&socket]), "with the agent");
    }
    // No key of the token.
    let other = token.lab.arg("other");
    token.run(&our("lhssh-keygen"), &["-q", "-t", "ed25519", "-N", "", "-f", &other]).ok("a key");
    let (public, file) = (format!("{other}.pub"), token.lab.arg("user.pub"));
    let refused = token.run(&our("lhssh-keygen"), &["-s", &public, "-D", LIBRARY, "-I", "id", &file]);
    assert_eq!(refused.code, 255);
    assert!(refused.err.contains("No PKCS#11 key matching"), "{}", refused.err);
}

#[test]
fn key_that_always_wants_the_pin_asks_each_time() {
    let test = "key_that_always_wants_the_pin_asks_each_time";
    let Some(token) = Token::new(test) else { return };
    token.generate("05", RSA, "rsa:2048", &["--always-auth"]);
    let ours = Lhsshd::start(&token.lab, "");
    token.lab.write("authorized_keys", &token.public(RSA));
    token.asked();
    let keyword = format!("PKCS11Provider={LIBRARY}");
    assert_in(&token.login(&our("lhssh"), ours.port, &[&keyword]), "directly");
    assert_eq!(token.asked(), "Enter PIN for 'my card': \n");
    let agent = token.agent(&our("lhssh-agent"), "agent", &[]);
    token.with(&agent, &our("lhssh-add"), &["-s", LIBRARY]).ok("ssh-add -s");
    let socket = format!("IdentityAgent={}", agent.socket.display());
    token.asked();
    for _ in 0..2 {
        assert_in(&token.login(&our("lhssh"), ours.port, &[&socket]), "with the agent");
        assert_eq!(token.asked(), "Enter PIN for 'my card': \n");
    }
}
