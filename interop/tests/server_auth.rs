//! User authentication at `lhsshd` with OpenSSH's client: keys from commands, several methods in a row, PAM,
//! and penalties for failures.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use lh_interop::{
    Lab, PamService as Service, ServerSetup, TestUser, eventually, is_root, me, safe_directory, script, skip,
    uninterrupted,
};

/// Options of the client for a login without a key.
const NO_KEY: [&str; 2] = ["-o", "PubkeyAuthentication=no"];

fn write(path: PathBuf, text: &str) {
    fs::write(path, text).unwrap();
}

/// Covers: sshd_config AuthorizedKeysCommand; sshd_config AuthorizedKeysCommandUser; token sshd %t; token sshd %k; token sshd %f; token sshd %U; token sshd %C; token sshd %%; token sshd %D
#[test]
fn keys_from_a_command() {
    if !is_root() {
        return skip("keys_command", "the program must be root's");
    }
    let directory = safe_directory();
    let program = directory.path().join("keys");
    script(&program, "exit 0");
    let lab = Lab::new();
    lab.write("authorized_keys", "");
    let key = lab.read("user_ed25519.pub");
    let config = format!(
        "AuthorizedKeysCommand {} %u %U %t %k %f \"%C\" %% \"%D\"\nAuthorizedKeysCommandUser nobody",
        program.display()
    );
    let Some(setup) = ServerSetup::with_lab("keys_command", lab, &config) else { return };
    setup.refused("Failed publickey");
    let [kind, blob] = [0, 1].map(|at| key.split_whitespace().nth(at).unwrap());
    let fingerprint = setup.lab.run(&setup.keygen, &["-l", "-f", "user_ed25519.pub"]).ok("ssh-keygen").text();
    let fingerprint = fingerprint.split_whitespace().nth(1).unwrap();
    let port = setup.server.port;
    script(
        &program,
        &format!(
            "test $# = 8 -a -z \"$8\" -a $1 = {} -a $2 = 0 -a $3 = {kind} -a $4 = {blob} -a $5 = {fingerprint} -a $7 = % || exit 1\n\
             case \"$6\" in '127.0.0.1 '*' 127.0.0.1 {port}') ;; *) exit 2;; esac\n\
             test $(id -un) = nobody || exit 3\ntest -z \"$SSH_AUTH_SOCK$SUDO_USER$CARGO\" || exit 4\n\
             echo '# a comment'\necho 'environment=\"X=1\",command=\"echo by command\" {key}'",
            me()
        ),
    );
    assert_eq!(setup.ssh(&[], &["id"]).ok("command").text(), "by command\n");
    setup.logged(&format!("found at {}:2", program.display()));
    script(&program, &format!("echo '{key}'; exit 9"));
    setup.refused("failed, status 9");
    // A program that other users may write is not run.
    script(&program, &format!("touch {}/ran; echo '{key}'", directory.path().display()));
    fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o775)).unwrap();
    setup.refused("Unsafe AuthorizedKeysCommand");
    assert!(!directory.path().join("ran").exists());
    let text = setup.lab.run(
        &lh_interop::our("lhsshd"),
        &["-t", "-f", "none", "-h", &setup.lab.arg("host_rsa"), "-o", "AuthorizedKeysCommand /bin/true"],
    );
    assert_eq!(
        (text.code, text.err.trim()),
        (255, "AuthorizedKeysCommand set without AuthorizedKeysCommandUser")
    );
}

/// Covers: sshd_config LoginGraceTime
#[test]
fn a_command_that_hangs_ends_with_the_time_to_log_in() {
    if !is_root() {
        return skip("hanging_command", "the program must be root's");
    }
    let directory = safe_directory();
    let program = directory.path().join("keys");
    script(&program, "sleep 1000");
    let lab = Lab::new();
    lab.write("authorized_keys", "");
    let config = format!(
        "LoginGraceTime 2\nAuthorizedKeysCommand {}\nAuthorizedKeysCommandUser root",
        program.display()
    );
    let Some(setup) = ServerSetup::with_lab("hanging_command", lab, &config) else { return };
    assert_eq!(setup.ssh(&[], &["true"]).code, 255);
    setup.logged("timed out");
}

/// Covers: sshd_config AuthenticationMethods; sshd_config ExposeAuthInfo
#[test]
fn authentication_methods_can_be_required_in_a_row() {
    if !is_root() {
        return skip("several_methods", "needs root to check passwords");
    }
    let lab = Lab::new();
    let user = TestUser::new(&lab);
    let config = "AuthorizedKeysFile .ssh/authorized_keys\nExposeAuthInfo yes\nInclude {lab}/methods.conf";
    let methods =
        |lab: &Lab, line: &str| lab.write("methods.conf", &format!("AuthenticationMethods {line}\n"));
    methods(&lab, "publickey,password keyboard-interactive");
    let Some(setup) = ServerSetup::with_lab("several_methods", lab, config) else { return };
    let (name, password) = (&user.name, user.password);
    let ran = setup.ssh_as(name, &["-o", "PreferredAuthentications=publickey"], &["true"]);
    assert!(ran.err.contains("Permission denied (password,keyboard-interactive)"), "{}", ran.err);
    setup.logged(&format!("Partial publickey for {name} from 127.0.0.1 port "));
    let show = "cat $SSH_USER_AUTH; stat -c %a $SSH_USER_AUTH; echo $SSH_USER_AUTH";
    let order = ["-o", "PreferredAuthentications=publickey,password"];
    let ran = setup.ssh_typing(name, &[password], &order, &[show]).ok("key and password");
    let key = setup.lab.read("user_ed25519.pub");
    let key: Vec<&str> = key.split_whitespace().take(2).collect();
    let shown = ran.text();
    let expected = format!("publickey {}\npassword\n600\n/tmp/sshauth.", key.join(" "));
    assert!(shown.starts_with(&expected), "{shown}");
    let file = shown.lines().last().unwrap().to_owned();
    eventually("the file goes with the session", || !Path::new(&file).exists());
    let options = [&NO_KEY[..], &["-o", "PreferredAuthentications=keyboard-interactive"]].concat();
    let ran = setup.ssh_typing(name, &[password], &options, &["cat $SSH_USER_AUTH"]).ok("the other way");
    assert_eq!(ran.text(), "keyboard-interactive/pam\n");
    let ran = setup.ssh_typing(name, &[password], &NO_KEY, &["true"]);
    assert_eq!(ran.code, 0, "keyboard-interactive alone: {}", ran.err);
    drop(setup);

    // Two keys, which must differ.
    let lab = Lab::new();
    let user = TestUser::new(&lab);
    methods(&lab, "publickey,publickey");
    let Some(setup) = ServerSetup::with_lab("several_methods", lab, config) else { return };
    let [ed25519, rsa] = ["user_ed25519", "user_rsa"].map(|key| setup.lab.arg(key));
    assert_eq!(setup.ssh_as(&user.name, &[], &["true"]).code, 255);
    setup.logged("Refusing key, already used");
    let ran = setup.ssh_as(&user.name, &["-i", &ed25519, "-i", &rsa], &["cat $SSH_USER_AUTH"]).ok("two keys");
    assert_eq!(
        ran.text().lines().map(|line| line.split(' ').nth(1).unwrap()).collect::<Vec<_>>(),
        ["ssh-ed25519", "ssh-rsa"]
    );
}

/// Covers: sshd_config AuthenticationMethods (methods that are off)
#[test]
fn methods_that_are_off_cannot_be_demanded() {
    let lab = Lab::new();
    let ran = lab.run(
        &lh_interop::our("lhsshd"),
        &[
            "-t",
            "-f",
            "none",
            "-h",
            &lab.arg("host_rsa"),
            "-o",
            "PubkeyAuthentication no",
            "-o",
            "AuthenticationMethods publickey publickey,password",
        ],
    );
    let text = "Disabled method \"publickey\" in AuthenticationMethods list \"publickey\"\n\
        Disabled method \"publickey\" in AuthenticationMethods list \"publickey,password\"\n\
        AuthenticationMethods cannot be satisfied by enabled authentication methods";
    assert_eq!((ran.code, ran.err.trim()), (255, text));
}

/// Covers: sshd_config UsePAM; sshd_config PAMServiceName; sshd_config PasswordAuthentication; sshd_config KbdInteractiveAuthentication
#[test]
fn pam_checks_passwords_and_asks_questions() {
    let Some(service) = Service::new(
        "passwords",
        "auth required pam_unix.so\naccount required pam_unix.so\nsession required pam_permit.so\n",
    ) else {
        return;
    };
    let lab = Lab::new();
    let user = TestUser::new(&lab);
    let config =
        format!("UsePAM yes\nPAMServiceName {}\nAuthorizedKeysFile .ssh/authorized_keys", service.name);
    let Some(setup) = ServerSetup::with_lab("passwords", lab, &config) else { return };
    let (name, password) = (&user.name, user.password);
    for method in ["password", "keyboard-interactive"] {
        let options = [&NO_KEY[..], &["-o"]].concat();
        let preferred = format!("PreferredAuthentications={method}");
        let options = [&options[..], &[preferred.as_str()]].concat();
        assert_eq!(setup.ssh_typing(name, &[password], &options, &["echo in"]).ok(method).text(), "in\n");
        let ran = setup.ssh_typing(name, &["wrong"], &options, &["echo in"]);
        assert_eq!(ran.code, 255, "{method}: {}", ran.err);
        let ran = setup.ssh_typing("nobody-of-that-name", &[password], &options, &["echo in"]);
        assert_eq!(ran.code, 255, "{method}: {}", ran.err);
    }
    assert!(setup.asked().contains("Password: "), "{}", setup.asked());
    setup.logged(&format!("Accepted password for {name} from"));
    setup.logged(&format!("Accepted keyboard-interactive/pam for {name} from"));
    setup.logged(&format!("Failed password for {name} from"));
    setup.logged("Failed password for invalid user nobody-of-that-name from");
    // Root's password is not even checked where root may not log in by password.
    drop(setup);
    service.rules(
        "auth required pam_permit.so\naccount required pam_permit.so\nsession required pam_permit.so\n",
    );
    let lab = Lab::new();
    let config = format!("UsePAM yes\nPAMServiceName {}\nPermitRootLogin prohibit-password", service.name);
    let Some(setup) = ServerSetup::with_lab("passwords", lab, &config) else { return };
    let ran = setup.ssh_typing("root", &["anything"], &NO_KEY, &["id"]);
    assert_eq!(ran.code, 255, "{}", ran.err);
    // A user who does not exist gets no session, whatever the modules answer.
    let ran = setup.ssh_typing("nobody-of-that-name", &["anything"], &NO_KEY, &["id"]);
    assert_eq!(ran.code, 255, "{}", ran.err);
    assert_eq!(setup.ssh(&[], &["echo in"]).ok("root by key").text(), "in\n");
}

/// Covers: sshd_config UsePAM (account, session, credentials, environment, limits)
#[test]
fn pam_opens_and_closes_sessions() {
    let Some(service) = Service::new("sessions", "") else { return };
    let directory = safe_directory();
    let lab = Lab::new();
    let user = TestUser::new(&lab);
    let journal = directory.path().join("journal");
    let note = directory.path().join("note");
    script(
        &note,
        &format!(
            "echo \"$PAM_TYPE $PAM_USER $PAM_RHOST $PAM_TTY $PAM_SERVICE $SSH_AUTH_INFO_0\" >>{}",
            journal.display()
        ),
    );
    write(directory.path().join("env"), "FROM_PAM DEFAULT=yes\nOVERRIDDEN DEFAULT=pam\n");
    write(directory.path().join("limits"), &format!("{} hard nofile 321\n{0} soft nofile 321\n", user.name));
    let rules = format!(
        "auth required pam_deny.so\naccount required pam_unix.so\naccount required pam_exec.so {note}\n\
         session required pam_limits.so conf={directory}/limits\nsession required pam_env.so conffile={directory}/env\n\
         session required pam_exec.so {note}\n",
        note = note.display(),
        directory = directory.path().display()
    );
    service.rules(&rules);
    let config = format!(
        "UsePAM yes\nPAMServiceName {}\nAuthorizedKeysFile .ssh/authorized_keys\nSetEnv OVERRIDDEN=server",
        service.name
    );
    let Some(setup) = ServerSetup::with_lab("sessions", lab, &config) else { return };
    let name = &user.name;
    let show = "echo $FROM_PAM $OVERRIDDEN; ulimit -n; id -un; env | grep -c SSH_AUTH_INFO";
    let ran = setup.ssh_as(name, &[], &[show]);
    assert_eq!(ran.text(), format!("yes server\n321\n{name}\n0\n"), "{}", ran.err);
    eventually("the session is closed", || {
        fs::read_to_string(&journal).is_ok_and(|text| text.contains("close_session"))
    });
    let text = fs::read_to_string(&journal).unwrap();
    let kinds: Vec<&str> = text.lines().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(kinds, ["account", "open_session", "close_session"], "{text}");
    let expected = format!("account {name} 127.0.0.1 ssh {} publickey ssh-ed25519 ", service.name);
    assert!(text.starts_with(&expected), "{text}");
    // PAM closes a session whose client is killed, too.
    let mut client = std::process::Command::new(&setup.ssh)
        .args(setup.args(&[], name, &["echo started; sleep 1000"]))
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = [0; 8];
    client.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
    client.kill().unwrap();
    client.wait().unwrap();
    eventually("the second session is closed", || {
        fs::read_to_string(&journal).is_ok_and(|text| text.matches("close_session").count() == 2)
    });
    // If a module refuses the session, nothing is run.
    service
        .rules("auth required pam_deny.so\naccount required pam_permit.so\nsession required pam_deny.so\n");
    let ran = setup.ssh_as(name, &[], &["echo ran"]);
    assert_eq!((ran.code, ran.text().as_str()), (254, ""), "{}", ran.err);
    setup.logged("PAM: pam_open_session(): ");
    // Nothing is forwarded either.
    let target = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = target.local_addr().unwrap().to_string();
    let ran = setup.ssh_as(name, &["-W", &target], &[]);
    assert!(ran.err.contains("administratively prohibited"), "{}", ran.err);
}

/// Covers: sshd_config UsePAM (accounts that are closed, nologin, expired passwords)
#[test]
fn pam_closes_accounts() {
    let rules = "auth required pam_unix.so\naccount required pam_unix.so\nsession required pam_permit.so\n\
                 password required pam_unix.so\n";
    let Some(service) = Service::new("accounts", rules) else { return };
    let directory = safe_directory();
    let lab = Lab::new();
    let user = TestUser::new(&lab);
    let config =
        format!("UsePAM yes\nPAMServiceName {}\nAuthorizedKeysFile .ssh/authorized_keys", service.name);
    let Some(setup) = ServerSetup::with_lab("accounts", lab, &config) else { return };
    let name = &user.name;
    setup.lab.run(Path::new("chage"), &["-E", "1", name]).ok("chage");
    let ran = setup.ssh_as(name, &[], &["true"]);
    assert_eq!(ran.code, 255, "{}", ran.err);
    assert!(ran.err.contains("account has expired"), "{}", ran.err);
    setup.logged(&format!("fatal: Access denied for user {name} by PAM account configuration [preauth]"));
    setup.lab.run(Path::new("chage"), &["-E", "-1", name]).ok("chage");
    setup.ssh_as(name, &[], &["true"]).ok("open again");
    // An expired password must be changed: by prompts where there are some, else before anything is run.
    setup.lab.run(Path::new("chage"), &["-d", "0", name]).ok("chage");
    let ran = setup.ssh_as(name, &[], &["echo ran"]);
    // Only the reason of the account modules, as sshd shows it, and no output of the command.
    assert!(ran.code == 1 && !ran.text().contains("ran\n"), "{} {}", ran.text(), ran.err);
    assert!(ran.text().lines().count() <= 1, "{}", ran.text());
    assert!(ran.err.contains("WARNING: Your password has expired."), "{}", ran.err);
    assert!(ran.err.contains("Password change required but no TTY available."), "{}", ran.err);
    let new = "a much longer horse 42";
    let options = [&NO_KEY[..], &["-o", "PreferredAuthentications=keyboard-interactive"]].concat();
    let ran = setup.ssh_typing(name, &[user.password, user.password, new, new], &options, &["echo in"]);
    assert_eq!((ran.code, ran.text().as_str()), (0, "in\n"), "{}\n{}", ran.err, setup.asked());
    let ran = setup.ssh_typing(name, &[new], &options, &["echo in"]);
    assert_eq!((ran.code, ran.text().as_str()), (0, "in\n"), "{}", ran.err);
    // nologin refuses logins with its text.
    let file = directory.path().join("nologin");
    write(file.clone(), "Down for repairs.\n");
    service.rules(&format!(
        "account required pam_nologin.so file={}\nsession required pam_permit.so\n",
        file.display()
    ));
    let ran = setup.ssh_as(name, &[], &["true"]);
    assert_eq!(ran.code, 255, "{}", ran.err);
    assert!(ran.err.contains("Down for repairs."), "{}", ran.err);
}

/// Covers: sshd_config LoginGraceTime (modules that hang)
#[test]
fn a_hanging_pam_module_blocks_no_other_login() {
    let Some(service) = Service::new("hanging", "auth required pam_exec.so /bin/sleep 1000\n") else {
        return;
    };
    let lab = Lab::new();
    let user = TestUser::new(&lab);
    // Enough for a busy machine to begin to ask the module.
    let config = format!("LoginGraceTime 8\nUsePAM yes\nPAMServiceName {}", service.name);
    let Some(setup) = ServerSetup::with_lab("hanging", lab, &config) else { return };
    let ran = setup.ssh_typing(&user.name, &[user.password], &NO_KEY, &["true"]);
    assert_eq!(ran.code, 255, "{}", ran.err);
    setup.logged("PAM: timed out");
    // Other users can log in meanwhile, and no process of the session is left.
    eventually("no process is left", || {
        let listed = setup.lab.sh(&format!("pgrep -P {} | wc -l", setup.server.pid())).text();
        listed.trim() == "0"
    });
}

/// Reads the server's first data on a new connection.
fn greeting(port: u16) -> String {
    let mut text = Vec::new();
    let mut socket = TcpStream::connect(("127.0.0.1", port)).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut byte = [0];
    while !text.ends_with(b"\n") {
        match uninterrupted(|| socket.read(&mut byte)) {
            Ok(1) => text.push(byte[0]),
            _ => break,
        }
    }
    let _ = socket.write_all(b"SSH-2.0-x\r\n");
    String::from_utf8(text).unwrap()
}

/// Covers: sshd_config PerSourcePenalties; sshd_config PerSourcePenaltyExemptList; sshd_config PerSourceNetBlockSize
#[test]
fn failed_logins_are_penalized_by_source() {
    for (exempt, refused) in [("none", true), ("127.0.0.0/8", false)] {
        let config = format!(
            "PerSourcePenalties authfail:40 min:60 max:100\nPerSourcePenaltyExemptList {exempt}\nPasswordAuthentication no\n\
             KbdInteractiveAuthentication no\nPerSourceNetBlockSize 8:64"
        );
        let Some(setup) = ServerSetup::new("penalties", &config) else { return };
        setup.ssh(&[], &["true"]).ok("the right key");
        setup.lab.write("authorized_keys", "");
        for _ in 0..2 {
            assert_eq!(setup.ssh(&[], &["true"]).code, 255);
        }
        if refused {
            setup.logged("127.0.0.1: activating penalty of ");
            setup.logged(" seconds for penalty: failed authentication");
            assert_eq!(greeting(setup.server.port), "Not allowed at this time\r\n");
            assert_eq!(setup.ssh(&[], &["true"]).code, 255);
            setup.logged("drop connection #0 from [127.0.0.1]:");
        } else {
            assert!(greeting(setup.server.port).starts_with("SSH-2.0-"));
        }
    }
}

/// Covers: sshd_config RefuseConnection; sshd_config PerSourcePenalties (refuseconnection, invaliduser, grace-exceeded, noauth)
#[test]
fn other_offences_are_penalized_by_source() {
    let user = "nobody-of-that-name";
    for (rules, reason, provoke) in [
        ("refuseconnection:90", "connection prohibited by RefuseConnection", "refused"),
        ("invaliduser:90", "attempted authentication by invalid user", user),
        ("noauth:90", "connections without attempting authentication", ""),
        ("grace-exceeded:90", "exceeded LoginGraceTime", "wait"),
    ] {
        let lab = Lab::new();
        lab.write("match.conf", "Match User refused\n  RefuseConnection yes\n");
        let grace = if provoke == "wait" { 2 } else { 100 };
        let config = format!(
            "LoginGraceTime {grace}\nInclude {{lab}}/match.conf\nPerSourcePenalties crash:0 authfail:0 invaliduser:0 noauth:0 \
             refuseconnection:0 grace-exceeded:0 {rules} min:60"
        );
        let Some(setup) = ServerSetup::with_lab("misdeeds", lab, &config) else { return };
        match provoke {
            "" => drop(TcpStream::connect(("127.0.0.1", setup.server.port)).unwrap()),
            "wait" => {
                let mut socket = TcpStream::connect(("127.0.0.1", setup.server.port)).unwrap();
                socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
                let end = Instant::now() + Duration::from_secs(60);
                while Instant::now() < end
                    && !matches!(uninterrupted(|| socket.read(&mut [0; 100])), Ok(0) | Err(_))
                {
                }
            }
            name => assert_eq!(setup.ssh_as(name, &[], &["true"]).code, 255),
        }
        setup.logged(&format!("seconds for penalty: {reason}"));
        assert_eq!(greeting(setup.server.port), "Not allowed at this time\r\n", "{rules}");
        if provoke == "refused" {
            setup.logged(
                "administratively prohibited connection for invalid user refused from 127.0.0.1 port ",
            );
        }
    }
}

/// Covers: sshd_config AllowUsers; sshd_config DenyUsers; sshd_config AllowGroups; sshd_config DenyGroups; sshd_config PubkeyAuthentication
#[test]
fn allow_and_deny_lists_limit_logins() {
    if !is_root() {
        return skip("who_may", "needs root to add a user");
    }
    let lab = Lab::new();
    let user = TestUser::new(&lab);
    let name = &user.name;
    let mut lab = Some(lab);
    for (rules, allowed, why) in [
        (format!("AllowUsers {name}@127.0.0.0/8"), true, ""),
        (format!("AllowUsers {name}@10.0.0.0/8"), false, "not listed in AllowUsers"),
        (format!("AllowUsers root\nAllowUsers {name}"), true, ""),
        (format!("AllowUsers *\nDenyUsers {}*", &name[..3]), false, "listed in DenyUsers"),
        (format!("AllowGroups root {name}"), true, ""),
        ("AllowGroups root".to_owned(), false, "none of user's groups are listed in AllowGroups"),
        (format!("DenyGroups {name}"), false, "a group is listed in DenyGroups"),
        ("PubkeyAuthentication no".to_owned(), false, "Connection closed by authenticating user"),
    ] {
        let config = format!("AuthorizedKeysFile .ssh/authorized_keys\n{rules}");
        let Some(setup) = ServerSetup::with_lab("who_may", lab.take().unwrap(), &config) else { return };
        let ran = setup.ssh_as(name, &[], &["true"]);
        assert_eq!(ran.code == 0, allowed, "{rules}: {}", ran.err);
        if !allowed {
            setup.logged(why);
        }
        lab = Some(setup.lab);
    }
}

/// Covers: sshd_config PermitRootLogin
#[test]
fn permit_root_login_limits_root() {
    if !is_root() {
        return skip("root_s_rules", "needs root");
    }
    let mut lab = Some(Lab::new());
    let key = lab.as_ref().unwrap().read("user_ed25519.pub");
    for (rule, options, allowed) in [
        ("no", "", false),
        ("prohibit-password", "", true),
        ("without-password", "", true),
        ("yes", "", true),
        ("forced-commands-only", "", false),
        ("forced-commands-only", "command=\"true\" ", true),
    ] {
        let used = lab.take().unwrap();
        used.write("authorized_keys", &format!("{options}{key}"));
        let Some(setup) = ServerSetup::with_lab("root_s_rules", used, &format!("PermitRootLogin {rule}"))
        else {
            return;
        };
        let ran = setup.ssh_as("root", &[], &["true"]);
        assert_eq!(ran.code == 0, allowed, "{rule}: {}", ran.err);
        if !allowed {
            setup.logged("ROOT LOGIN REFUSED FROM 127.0.0.1 port ");
        }
        lab = Some(setup.lab);
    }
}

/// Covers: sshd_config PermitEmptyPasswords; sshd_config PasswordAuthentication; sshd_config UsePAM (no); sshd btmp
#[test]
fn passwords_without_pam() {
    if !is_root() {
        return skip("passwords_without_pam", "needs root to check passwords");
    }
    let btmp = Path::new("/var/log/btmp");
    if !btmp.exists() {
        write(btmp.to_owned(), "");
    }
    fs::set_permissions(btmp, std::os::unix::fs::PermissionsExt::from_mode(0o660)).unwrap();
    let lab = Lab::new();
    let user = TestUser::new(&lab);
    let name = &user.name;
    let Some(setup) = ServerSetup::with_lab("passwords_without_pam", lab, "PermitEmptyPasswords no") else {
        return;
    };
    assert_eq!(setup.ssh_typing(name, &[user.password], &NO_KEY, &["echo in"]).ok("password").text(), "in\n");
    assert_eq!(setup.ssh_typing(name, &["wrong"], &NO_KEY, &["true"]).code, 255);
    let failed =
        || fs::read(btmp).unwrap().windows(name.len()).filter(|part| *part == name.as_bytes()).count();
    eventually("the failure is recorded", || failed() > 0);
    setup.lab.run(Path::new("passwd"), &["-d", name]).ok("passwd -d");
    assert_eq!(setup.ssh_typing(name, &[""], &NO_KEY, &["true"]).code, 255);
    let lab = setup.lab;
    drop(setup.server);
    let Some(setup) = ServerSetup::with_lab("passwords_without_pam", lab, "PermitEmptyPasswords yes") else {
        return;
    };
    assert_eq!(setup.ssh_as(name, &NO_KEY, &["echo in"]).ok("no password").text(), "in\n");
}
