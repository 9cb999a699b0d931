//! Rarely used flags, compared one by one with OpenSSH's.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use lh_interop::sharing::SharingSetup;
use lh_interop::{Agent, Lab, Lhsshd, assert_same_file, eventually, make_blob, me, our, peers, script};

/// Output and exit status of `-O` commands are equal for every combination of master and client, and without
/// a master.
///
/// Covers: ssh -O; ssh -S; ssh_config ControlPath
#[test]
fn control_commands_match_openssh_output() {
    let Some([ssh]) = peers("commands_to_a_master", ["ssh"]) else { return };
    let transcript = |master: PathBuf, client: PathBuf| {
        let setup = SharingSetup::new(master, client, "");
        let socket = setup.lab.arg("ctl");
        let said = |given: &[&str]| {
            let ran = setup.lab.run(&setup.client, &setup.args(given));
            (ran.code, ran.text(), ran.err.replace(&socket, "SOCKET").replace('\r', ""))
        };
        let mut all =
            vec![said(&["-O", "check", "@"]), said(&["-O", "exit", "@"]), said(&["-O", "nothing", "@"])];
        all.push(said(&["-S", "none", "-O", "check", "@"]));
        let master = setup.start_master(&[]);
        let mut running = said(&["-O", "check", "@"]);
        running.2 = running.2.replace(&master.0.id().to_string(), "PID");
        all.push(running);
        let busy = setup.server.port;
        for words in [
            ["-O", "forward", "-L", &format!("{}:localhost:1", lh_interop::tunnel::free_port())],
            ["-O", "forward", "-L", &format!("127.0.0.1:{busy}:localhost:1")],
            ["-O", "cancel", "-L", "1:localhost:1"],
        ] {
            all.push(said(&[&words[..], &["@"]].concat()));
        }
        // A failing master's message goes to the master's own log.
        all.push(said(&["-O", "stop", "@"]));
        all.push(said(&["-O", "check", "@"]));
        all
    };
    let theirs = transcript(ssh.clone(), ssh.clone());
    for (master, client) in [(our("lhssh"), ssh.clone()), (ssh, our("lhssh")), (our("lhssh"), our("lhssh"))] {
        assert_eq!(
            transcript(master.clone(), client.clone()),
            theirs,
            "{} of {}",
            client.display(),
            master.display()
        );
    }
}

/// `scp -R` has the first host copy to the second, and `-A` lets it log in there with the local agent's keys.
///
/// Covers: scp -A; scp -R
#[test]
fn scp_remote_copy_uses_the_forwarded_agent() {
    let lab = Lab::new();
    make_blob(&lab.path("blob"), 300_000);
    let second = Lhsshd::start(&lab, "");
    std::fs::create_dir(lab.path("bin")).unwrap();
    let options: String = lab.client_options().iter().map(|word| format!(" '{word}'")).collect();
    // The first host has no key, and knows the second host's.
    std::fs::copy(lab.path("user_ed25519.pub"), lab.path("only.pub")).unwrap();
    let options = options.replace(&lab.arg("user_ed25519"), &lab.arg("only.pub"));
    let body = format!(
        "exec {} -S {}{options} -P {} \"$@\"",
        our("lhscp").display(),
        our("lhssh").display(),
        second.port
    );
    script(&lab.path("bin/scp"), &body);
    let first = Lhsshd::start(&lab, &format!("SetEnv PATH={}:/usr/bin:/bin\n", lab.arg("bin")));
    let agent = Agent::ours(&lab, "agent", &[]);
    agent.run(&lab, &our("lhssh-add"), &[lab.arg("user_ed25519")]).ok("added");
    let copy = |more: &[&str], to: &str| {
        let mut words = lab.client_options();
        words.extend([
            "-P".to_owned(),
            first.port_arg(),
            "-S".to_owned(),
            our("lhssh").display().to_string(),
        ]);
        words.extend(more.iter().map(|&word| word.to_owned()));
        words.extend([lab.arg("blob"), lab.arg(to)].map(|path| format!("{}@127.0.0.1:{path}", me())));
        agent.run(&lab, &our("lhscp"), &words)
    };
    copy(&["-R", "-A"], "copied").ok("with the agent");
    assert_same_file(&lab.path("blob"), &lab.path("copied"));
    assert!(second.log().contains("Accepted publickey"), "the first host was there");
    let refused = copy(&["-R"], "refused");
    assert_eq!(refused.code, 1, "{}", refused.err);
    assert!(refused.err.contains("Permission denied"), "{}", refused.err);
    assert!(!lab.path("refused").exists());
}

/// With `-d` the agent stays in the foreground and logs; `-E` sets the hash of its fingerprints.
///
/// Covers: ssh-agent -d; ssh-agent -E
#[test]
fn agent_debug_mode_logs_its_work() {
    let lab = Lab::new();
    let log = lab.path("agent.err");
    let mut child = Command::new(our("lhssh-agent"))
        .args(["-d", "-E", "md5", "-a", &lab.arg("agent")])
        .env("HOME", lab.path("home"))
        .stdin(Stdio::null())
        .stdout(std::fs::File::create(lab.path("agent.out")).unwrap())
        .stderr(std::fs::File::create(&log).unwrap())
        .spawn()
        .unwrap();
    // It is said behind the making of the socket.
    eventually("the agent is there", || lab.read("agent.out").contains("echo Agent pid "));
    let started = lab.read("agent.out");
    assert!(
        started.starts_with(&format!("SSH_AUTH_SOCK={}; export SSH_AUTH_SOCK;", lab.arg("agent"))),
        "{started}"
    );
    assert!(
        started.contains(&format!("echo Agent pid {};", child.id())),
        "{started}: it is the process that was started"
    );
    let variable = format!("SSH_AUTH_SOCK={}", lab.arg("agent"));
    let add = |words: &[&str]| {
        let add = our("lhssh-add").display().to_string();
        lab.run(std::path::Path::new("env"), &[&[&*variable, &*add], words].concat())
    };
    let shown = add(&["-E", "md5", "-l"]);
    assert_eq!((shown.code, shown.text().trim()), (1, "The agent has no identities."));
    add(&["user_ed25519"]).ok("added");
    let shown = add(&["-E", "md5", "-l"]).ok("listed").text();
    let fingerprint = shown.split_whitespace().nth(1).unwrap();
    assert!(fingerprint.starts_with("MD5:"), "{shown}");
    add(&["-T", "user_ed25519.pub"]).ok("used");
    add(&["-d", "user_ed25519.pub"]).ok("removed");
    assert_eq!(add(&["-d", "user_ed25519.pub"]).code, 1);
    let said = std::fs::read_to_string(&log).unwrap();
    let expected: String = ["added", "signed with", "removed"]
        .map(|what| format!("debug1: {what} ED25519 {fingerprint}\n"))
        .concat();
    assert_eq!(said, expected + "debug1: asked to remove a key that is not here\n");
    child.kill().unwrap();
    child.wait().unwrap();
}

/// The agent's extensions, its refusal to load libraries, and the verbosity of a key test.
///
/// Covers: ssh-add -e; ssh-add -Q; ssh-add -v
#[test]
fn agent_extensions_and_library_refusals_match() {
    let Some([ssh_agent]) = peers("less_common_questions", ["ssh-agent"]) else { return };
    let lab = Lab::new();
    let add = our("lhssh-add");
    let extensions = |agent: &Agent| {
        let ran = agent.run(&lab, &add, &["-Q"]);
        (ran.code, ran.text(), ran.err)
    };
    let ours = Agent::ours(&lab, "ours", &[]);
    assert_eq!(extensions(&ours), (0, "session-bind@openssh.com\n".to_owned(), String::new()));
    // OpenSSH's agent of 2022 does not know the query.
    let theirs = Agent::start(&lab, &ssh_agent, "theirs", &[], &[]);
    let (code, out, err) = extensions(&theirs);
    let knows_it = code == 0 && out.contains("session-bind@openssh.com");
    let says_no = code == 1 && out.is_empty() && err == "Agent does not support the \"query\" extension\n";
    assert!(knows_it || says_no, "{code} {out} {err}");
    for agent in [&ours, &theirs] {
        let removed = agent.run(&lab, &add, &["-e", "/bin/sh"]);
        assert_eq!(removed.code, 1);
        let real = std::fs::canonicalize("/bin/sh").unwrap();
        let text = format!("Could not remove card \"{}\": agent refused operation\n", real.display());
        assert_eq!(removed.err, text);
        let missing = agent.run(&lab, &add, &["-e", "/nonexistent/lib.so"]);
        assert_eq!((missing.code, &*missing.err), (1, "/nonexistent/lib.so: No such file or directory\n"));
        agent.run(&lab, &add, &[lab.arg("user_rsa")]).ok("it goes on");
        let quiet = agent.run(&lab, &add, &["-T", "user_rsa.pub"]).ok("tried");
        let loud = agent.run(&lab, &add, &["-v", "-T", "user_rsa.pub"]).ok("tried");
        assert_eq!((quiet.text(), &*quiet.err), (String::new(), ""));
        assert!((loud.text() + &loud.err).contains("RSA user_rsa.pub"), "{} {}", loud.text(), loud.err);
    }
}
