//! Kerberos logins in both directions, in a realm made for the test. A separate test covers programs built
//! without the Cargo feature `gssapi`.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use lh_interop::cuts::{Break, Cuts};
use lh_interop::kerberos::{REALM, Realm};
use lh_interop::{Inetd, Lab, Lhsshd, Ran, TestUser, eventually, is_root, our, peers, skip};

/// Returns whether our programs were built with the feature.
fn built_in(lab: &Lab) -> bool {
    let ran = lab.run(&our("lhssh"), &["-F", "none", "-o", "GSSAPIAuthentication=yes", "-G", "host"]);
    !ran.err.contains("Unsupported option")
}

/// A realm with a principal for a system user.
struct KerberosSetup {
    lab: Lab,
    realm: Realm,
    user: TestUser,
    ticket: PathBuf,
}

/// Our server or OpenSSH's.
enum Server {
    Ours(Lhsshd),
    Theirs(Inetd),
}

impl Server {
    fn port(&self) -> u16 {
        match self {
            Self::Ours(server) => server.port,
            Self::Theirs(server) => server.port,
        }
    }

    fn log(&self) -> String {
        match self {
            Self::Ours(server) => server.log(),
            Self::Theirs(server) => server.log(),
        }
    }
}

impl KerberosSetup {
    fn new(test: &str) -> Option<Self> {
        if !is_root() {
            skip(test, "only root can log in as another user");
            return None;
        }
        let lab = Lab::new();
        if !built_in(&lab) {
            skip(test, "this build loads no libraries");
            return None;
        }
        let realm = Realm::start(test, &lab)?;
        let user = TestUser::new(&lab);
        let ticket = realm.ticket(&lab, &user.name);
        realm.hosts(&lab, &["127.0.0.1", &host_name()]);
        Some(Self { lab, realm, user, ticket })
    }

    fn ours(&self, config: &str) -> Server {
        let config = format!("GSSAPIAuthentication yes\n{config}");
        let environment = self.realm.environment();
        let environment: Vec<_> = environment.iter().map(|(name, value)| (*name, value.as_str())).collect();
        Server::Ours(Lhsshd::start_with(&self.lab, &config, &environment))
    }

    fn theirs(&self, sshd: &Path, config: &str) -> Server {
        let mut text = format!("GSSAPIAuthentication yes\n{config}\n");
        for key in ["host_ed25519", "host_rsa", "host_ecdsa"] {
            text.push_str(&format!("HostKey {}\n", self.lab.arg(key)));
        }
        text.push_str("UsePAM no\nPidFile none\nLogLevel VERBOSE\nStrictModes no\n");
        let _ = std::fs::create_dir_all("/run/sshd");
        self.lab.write("theirs.conf", &text);
        let mut args: Vec<String> =
            self.realm.environment().into_iter().map(|(name, value)| format!("{name}={value}")).collect();
        args.extend([sshd.display().to_string()]);
        args.extend(["-i".into(), "-e".into(), "-f".into(), self.lab.arg("theirs.conf")]);
        Server::Theirs(Inetd::start(&self.lab, Path::new("/usr/bin/env"), &args))
    }

    /// Runs a client that has the user's ticket and no other credentials.
    fn log_in(&self, client: &Path, server: &Server, options: &[&str], command: &str) -> Ran {
        self.log_in_to("127.0.0.1", client, server, options, command)
    }

    fn log_in_to(&self, host: &str, client: &Path, server: &Server, options: &[&str], command: &str) -> Ran {
        self.log_in_as(&self.user.name, host, client, server, options, command)
    }

    fn log_in_as(
        &self,
        user: &str,
        host: &str,
        client: &Path,
        server: &Server,
        options: &[&str],
        command: &str,
    ) -> Ran {
        self.log_in_at(server.port(), user, host, client, options, command)
    }

    fn log_in_at(
        &self,
        port: u16,
        user: &str,
        host: &str,
        client: &Path,
        options: &[&str],
        command: &str,
    ) -> Ran {
        let mut words = vec![client.display().to_string()];
        words.extend(options.iter().map(|&word| word.to_owned()));
        words.extend(self.lab.client_options());
        for option in ["GSSAPIAuthentication=yes", "PubkeyAuthentication=no"] {
            words.extend(["-o".to_owned(), option.to_owned()]);
        }
        words.extend(["-p".to_owned(), port.to_string()]);
        words.extend([format!("{user}@{host}"), command.to_owned()]);
        let line: Vec<String> =
            words.iter().map(|word| format!("'{}'", word.replace('\'', "'\\''"))).collect();
        let ticket = self.ticket.display();
        self.lab.sh(&format!("{} KRB5CCNAME='FILE:{ticket}' {}", self.realm.assignments(), line.join(" ")))
    }
}

/// Returns the machine's host name.
fn host_name() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned()
}

/// Accepts any host principal of the key table, because the tests connect to an address.
const ANY: &str = "GSSAPIStrictAcceptorCheck no";

/// Covers: ssh_config GSSAPIAuthentication; sshd_config GSSAPIAuthentication; sshd_config GSSAPIStrictAcceptorCheck; wire gssapi-with-mic
#[test]
fn a_ticket_is_enough_in_each_direction() {
    let Some(setup) = KerberosSetup::new("a_ticket_is_enough") else { return };
    let Some([ssh, sshd]) = peers("a_ticket_is_enough", ["ssh", "sshd"]) else { return };
    let ours = setup.ours(ANY);
    let name = &setup.user.name;
    for (client, server) in
        [(&our("lhssh"), &ours), (&ssh, &ours), (&our("lhssh"), &setup.theirs(&sshd, ANY))]
    {
        // Our client prints the method of its login as OpenSSH's does.
        let ran = setup.log_in(client, server, &["-v"], "id -un").ok("a login with a ticket");
        assert_eq!(ran.text(), format!("{name}\n"));
        assert!(ran.err.contains("using \"gssapi-with-mic\""), "{}", ran.err);
        let line = format!("Accepted gssapi-with-mic for {name} from 127.0.0.1 port");
        eventually("the login is logged", || server.log().contains(&line));
        let log = server.log();
        let line = log.lines().find(|text| text.contains(&line)).unwrap();
        assert!(line.ends_with(&format!("ssh2: {name}@{REALM}")), "{line}");
        assert!(log.contains(&format!("Authorized to {name}, krb5 principal {name}@{REALM} (krb5_kuserok)")));
    }
    // GSSAPI is the first method, and costs no failure where it cannot work.
    let ran = setup.log_in(&our("lhssh"), &ours, &["-v"], "true").ok("again");
    assert!(!ran.err.contains("Next authentication method: publickey"), "{}", ran.err);
    let ran = setup.log_in(&our("lhssh"), &ours, &["-o", "GSSAPIAuthentication=no"], "true");
    assert_eq!(ran.code, 255);
    assert!(
        ran.err.contains("Permission denied (publickey,gssapi-with-mic,password,keyboard-interactive)"),
        "{}",
        ran.err
    );
    // Strict checking wants the machine's own name, which these clients do not use.
    let strict = setup.ours("");
    for client in [&our("lhssh"), &ssh] {
        let ran = setup.log_in(client, &strict, &[], "true");
        assert_eq!(ran.code, 255, "{}", ran.err);
        let port = strict.port();
        let proxy =
            format!("ProxyCommand=bash -c 'exec 3<>/dev/tcp/127.0.0.1/{port}; cat <&3 & cat >&3; kill $!'");
        let alias = format!("HostKeyAlias=[127.0.0.1]:{port}");
        let options = ["-o", &proxy, "-o", &alias];
        setup.log_in_to(&host_name(), client, &strict, &options, "true").ok("by the right name");
    }
}

/// Covers: ssh_config GSSAPIDelegateCredentials; ssh -K; ssh -k; sshd_config GSSAPICleanupCredentials; sshd_config GSSAPIDelegateCredentials
#[test]
fn gssapi_credentials_are_delegated_if_both_ends_agree() {
    let Some(setup) = KerberosSetup::new("credentials_are_given_away") else { return };
    let Some([ssh, sshd]) = peers("credentials_are_given_away", ["ssh", "sshd"]) else { return };
    let server = setup.ours(ANY);
    let look = "echo \"$KRB5CCNAME\"; klist -s && klist";
    for (client, server) in
        [(&our("lhssh"), &server), (&ssh, &server), (&our("lhssh"), &setup.theirs(&sshd, ANY))]
    {
        for options in [&["-K"][..], &["-o", "GSSAPIDelegateCredentials=yes"]] {
            let ran = setup.log_in(client, server, options, look).ok("with credentials");
            let text = ran.text();
            let file = text.lines().next().and_then(|line| line.strip_prefix("FILE:")).unwrap_or_default();
            assert!(file.starts_with("/tmp/krb5cc_"), "{text}");
            assert!(text.contains(&format!("Default principal: {}@{REALM}", setup.user.name)), "{text}");
            eventually("the file goes with the session", || !Path::new(file).exists());
        }
        for options in [&[][..], &["-k"], &["-k", "-o", "GSSAPIDelegateCredentials=yes"]] {
            let ran = setup.log_in(client, server, options, "echo \"<$KRB5CCNAME>\"").ok("without");
            assert_eq!(ran.text(), "<>\n", "{options:?}");
        }
    }
    let keeping = setup.ours(&format!("{ANY}\nGSSAPICleanupCredentials no"));
    let ran = setup.log_in(&our("lhssh"), &keeping, &["-K"], "echo \"${KRB5CCNAME#FILE:}\"").ok("kept");
    let file = PathBuf::from(ran.text().trim());
    eventually("the session is over", || keeping.log().contains("Disconnected from user"));
    let metadata = std::fs::metadata(&file).expect("the file stays");
    assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
    assert_ne!(metadata.uid(), 0, "it is the user's own");
    std::fs::remove_file(file).unwrap();
    let refusing = setup.ours(&format!("{ANY}\nGSSAPIDelegateCredentials no"));
    let ran = setup.log_in(&our("lhssh"), &refusing, &["-K"], "echo \"<$KRB5CCNAME>\"").ok("not taken");
    assert_eq!(ran.text(), "<>\n");
}

/// Kerberos proves who the client is, `PermitRootLogin` refuses it, and a key logs in behind it.
///
/// Covers: sshd_config GSSAPIDelegateCredentials (of a refused login); sshd_config PermitRootLogin (Kerberos)
#[test]
fn credentials_of_a_refused_root_login_are_dropped() {
    let Some(setup) = KerberosSetup::new("credentials_of_a_refused_root_login") else { return };
    // The list of who may be root is the lab's: root's own home stays as it is.
    let lists = setup.lab.path("k5login");
    std::fs::create_dir(&lists).unwrap();
    std::fs::write(lists.join("root"), format!("{}@{REALM}\n", setup.user.name)).unwrap();
    let realm = setup.lab.read("realm/krb5.conf");
    let lists = format!("[libdefaults]\n k5login_directory = {}\n", lists.display());
    setup.lab.write("realm/krb5.conf", &realm.replace("[libdefaults]\n", &lists));
    let show = "echo \"<$KRB5CCNAME>\"";
    let key = setup.lab.read("user_ed25519.pub");
    setup.lab.write("forced", &format!("command=\"{}\" {key}", show.replace('"', "\\\"")));
    let log_in = |server: &Server, command: &str| {
        let options = ["-K", "-o", "PubkeyAuthentication=yes"];
        setup.log_in_as("root", "127.0.0.1", &our("lhssh"), server, &options, command).ok("a login of root")
    };
    let keys = format!("{ANY}\nAuthorizedKeysFile {}", setup.lab.arg("forced"));
    let server = setup.ours(&format!("{keys}\nPermitRootLogin forced-commands-only"));
    assert_eq!(log_in(&server, "true").text(), "<>\n");
    let log = server.log();
    let principal = format!("{}@{REALM}", setup.user.name);
    for line in [
        &format!("Authorized to root, krb5 principal {principal} (krb5_kuserok)"),
        "ROOT LOGIN REFUSED FROM 127.0.0.1 port ",
        "Accepted publickey for root from 127.0.0.1 port ",
    ] {
        assert!(log.contains(line), "{line} is not in\n{log}");
    }
    // The same login has them where it is not refused.
    let server = setup.ours(&format!("{keys}\nPermitRootLogin yes"));
    let text = log_in(&server, show).text();
    assert!(text.starts_with("<FILE:/tmp/krb5cc_"), "{text}");
    assert!(server.log().contains("Accepted gssapi-with-mic for root from 127.0.0.1 port "));
}

/// Covers: sshd_config GSSAPIAuthentication (who may be whom); file ~/.k5login; sshd_config AuthenticationMethods; sshd_config ExposeAuthInfo
#[test]
fn kerberos_maps_principals_to_users() {
    let Some(mut setup) = KerberosSetup::new("who_may_be_whom") else { return };
    let Some([ssh]) = peers("who_may_be_whom", ["ssh"]) else { return };
    let server = setup.ours(ANY);
    let own = setup.ticket.clone();
    let guest = setup.realm.ticket(&setup.lab, "guest");
    let list = setup.user.home.join(".k5login");
    let may = |setup: &KerberosSetup, client: &Path| setup.log_in(client, &server, &[], "true").code == 0;
    let write = |setup: &KerberosSetup, names: &str| {
        std::fs::write(&list, names).unwrap();
        let path = list.display().to_string();
        setup.lab.run(Path::new("chown"), &[&setup.user.name, &path]).ok("chown");
    };
    for client in [our("lhssh"), ssh] {
        setup.ticket.clone_from(&guest);
        assert!(!may(&setup, &client), "another's name");
        write(&setup, &format!("guest@{REALM}\n"));
        assert!(may(&setup, &client), "the list names him");
        setup.ticket.clone_from(&own);
        assert!(!may(&setup, &client), "the list does not name the user");
        std::fs::remove_file(&list).unwrap();
        assert!(may(&setup, &client), "without a list the name decides");
    }
    assert!(server.log().contains(&format!("krb5 principal guest@{REALM} is not authorized to be")));
    let two = setup.ours(&format!(
        "{ANY}\nAuthenticationMethods gssapi-with-mic,publickey\nExposeAuthInfo yes\nAuthorizedKeysFile .ssh/authorized_keys"
    ));
    let key = "PubkeyAuthentication=yes";
    let ran = setup.log_in(&our("lhssh"), &two, &[], "true");
    assert_eq!(ran.code, 255);
    assert!(ran.err.contains("Permission denied (publickey)"), "{}", ran.err);
    let ran = setup.log_in(&our("lhssh"), &two, &["-o", key], "cat $SSH_USER_AUTH").ok("both");
    let proof = format!("gssapi-with-mic {}@{REALM}\npublickey ssh-ed25519 ", setup.user.name);
    assert!(ran.text().starts_with(&proof), "{}", ran.text());
}

/// A session goes on over another connection as long as its principal may be the user.
///
/// Covers: sshd_config ResumeGrace; sshd_config GSSAPIAuthentication; file ~/.k5login
#[test]
fn kerberos_sessions_go_on_while_the_list_permits_it() {
    let Some(setup) = KerberosSetup::new("kerberos_sessions_go_on_while_the_list_permits_it") else { return };
    let Server::Ours(server) = setup.ours(&format!("{ANY}\nResumeGrace 1m")) else { unreachable!() };
    let through_a_break = |before: &str| {
        let cuts = Cuts::to(server.port, vec![(1 << 20, Break::Reset)]);
        setup.lab.know(cuts.port);
        let command = format!("{before} head -c 3000000 /dev/zero");
        setup.log_in_at(cuts.port, &setup.user.name, "127.0.0.1", &our("lhssh"), &[], &command)
    };
    assert_eq!(through_a_break("").ok("without a list").out.len(), 3_000_000);
    assert_eq!(server.resumptions(), 1);
    let ran = through_a_break(&format!("echo other@{REALM} >.k5login;"));
    assert_eq!(ran.code, 255, "{}", ran.err);
    let log = server.log();
    assert!(log.contains("refused: the Kerberos principal may not be the user any more"), "{log}");
}

/// Covers: sshd_config GSSAPIAuthentication (hosts without a key); ssh_config PreferredAuthentications
#[test]
fn gssapi_without_a_host_key_costs_no_attempt() {
    let Some(setup) = KerberosSetup::new("a_host_without_a_key") else { return };
    let Some([ssh]) = peers("a_host_without_a_key", ["ssh"]) else { return };
    // A single failure would end the login, and still the key is tried.
    let keys =
        format!("MaxAuthTries 1\nGSSAPIAuthentication yes\n{ANY}\nAuthorizedKeysFile .ssh/authorized_keys");
    let config = setup.lab.arg("realm/krb5.conf");
    let server = Server::Ours(Lhsshd::start_with(
        &setup.lab,
        &keys,
        &[("KRB5_CONFIG", &config), ("KRB5_KTNAME", "/none")],
    ));
    let key = "PubkeyAuthentication=yes";
    for client in [our("lhssh"), ssh] {
        let ran = setup.log_in(&client, &server, &["-v", "-o", key], "echo in").ok("by key");
        assert_eq!(ran.text(), "in\n");
        assert!(ran.err.contains("Next authentication method: gssapi-with-mic"), "{}", ran.err);
    }
    // A client without a ticket does not try the method.
    let bare = setup.lab.sh(&format!(
        "{} KRB5CCNAME=FILE:/none '{}' -v -F none -o GSSAPIAuthentication=yes -o IdentityFile=/none -o BatchMode=yes \
         -o UserKnownHostsFile='{}' -p {} {}@127.0.0.1 true",
        setup.realm.assignments(),
        our("lhssh").display(),
        setup.lab.arg("known_hosts"),
        server.port(),
        setup.user.name,
    ));
    assert_eq!(bare.code, 255);
    assert!(bare.err.contains("No Kerberos credentials available"), "{}", bare.err);
    // PreferredAuthentications can exclude the method.
    let preferred = ["-v", "-o", key, "-o", "PreferredAuthentications=publickey"];
    let ran = setup.log_in(&our("lhssh"), &server, &preferred, "true").ok("by key only");
    assert!(!ran.err.contains("Next authentication method: gssapi-with-mic"), "{}", ran.err);
}

/// Covers: ssh_config GSSAPIAuthentication (static builds); sshd_config GSSAPIAuthentication (static builds)
#[test]
fn builds_that_load_no_library_do_not_support_the_options() {
    let lab = Lab::new();
    let unsupported = !built_in(&lab);
    let line = lab.run(&our("lhssh"), &["-F", "none", "-o", "GSSAPIAuthentication=yes", "-G", "host"]);
    let text = "command-line line 0: Unsupported option \"gssapiauthentication\"";
    assert_eq!(line.err.contains(text), unsupported, "{}", line.err);
    let server = Lhsshd::start(&lab, "GSSAPIAuthentication yes");
    let key = lab.arg("host_ed25519");
    let args = ["-i", "-f", "/dev/null", "-h", &key, "-o", "GSSAPIAuthentication yes"];
    let notes = lab.run(&our("lhsshd"), &args).err;
    assert_eq!(notes.contains("Unsupported option GSSAPIAuthentication"), unsupported, "{notes}");
    let login = lab.run(
        &our("lhssh"),
        &[
            lab.client_options(),
            vec![
                "-o".into(),
                "PubkeyAuthentication=no".into(),
                "-p".into(),
                server.port_arg(),
                "127.0.0.1".into(),
            ],
        ]
        .concat(),
    );
    assert_eq!(login.err.contains("gssapi-with-mic"), !unsupported, "{}", login.err);
}
