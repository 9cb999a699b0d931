//! A Kerberos realm for one test: MIT's key distribution centre with its files in the lab's directory, on a
//! port that the kernel chose.

use std::net::{TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::{Lab, Ran, eventually, find, peers};

/// The realm's name.
pub const REALM: &str = "LONGHAUL.TEST";

/// A running realm; stopped when dropped.
pub struct Realm {
    centre: Child,
    directory: PathBuf,
}

impl Realm {
    /// Starts the realm. Returns `None` if MIT's programs are not installed.
    pub fn start(test: &str, lab: &Lab) -> Option<Self> {
        let [kdb5_util, krb5kdc, _, _] = peers(test, ["kdb5_util", "krb5kdc", "kadmin.local", "kinit"])?;
        let directory = lab.path("realm");
        std::fs::create_dir_all(&directory).unwrap();
        // The centre cannot choose a port itself, so the kernel is asked first for one that is free for TCP
        // and UDP.
        let port = (0..100).find_map(|_| {
            let tcp = TcpListener::bind("127.0.0.1:0").ok()?;
            let port = tcp.local_addr().ok()?.port();
            UdpSocket::bind(("127.0.0.1", port)).ok().map(|_| port)
        })?;
        let here = directory.display();
        // Host names are used as typed, because no name server knows them.
        let config = format!(
            "[libdefaults]\n default_realm = {REALM}\n dns_lookup_realm = false\n dns_lookup_kdc = false\n rdns = false\n\
             dns_canonicalize_hostname = false\n forwardable = true\n default_ccache_name = FILE:{here}/nobody\n\
             [realms]\n {REALM} = {{\n  kdc = 127.0.0.1:{port}\n }}\n\
             [domain_realm]\n localhost = {REALM}\n 127.0.0.1 = {REALM}\n"
        );
        let profile = format!(
            "[kdcdefaults]\n kdc_listen = 127.0.0.1:{port}\n kdc_tcp_listen = 127.0.0.1:{port}\n[realms]\n {REALM} = {{\n\
             database_name = {here}/principal\n acl_file = {here}/acl\n key_stash_file = {here}/stash\n }}\n"
        );
        std::fs::write(directory.join("krb5.conf"), config).unwrap();
        std::fs::write(directory.join("kdc.conf"), profile).unwrap();
        std::fs::write(directory.join("acl"), "").unwrap();
        let environment = environment_of(&directory);
        let create = Command::new(kdb5_util)
            .args(["create", "-s", "-r", REALM, "-P", "master key of a test"])
            .envs(environment.clone())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert!(create.status.success(), "{}", String::from_utf8_lossy(&create.stderr));
        let log = std::fs::File::create(directory.join("kdc.log")).unwrap();
        let centre = Command::new(krb5kdc)
            .arg("-n")
            .envs(environment)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        let realm = Self { centre, directory };
        eventually("the key distribution centre listens", || {
            std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
        Some(realm)
    }

    /// Names and values of the environment variables that put a program into the realm.
    pub fn environment(&self) -> Vec<(&'static str, String)> {
        environment_of(&self.directory)
    }

    /// Returns the [`environment`](Self::environment) as words for `env` or a shell.
    pub fn assignments(&self) -> String {
        let word = |(name, value): (&str, String)| format!("{name}='{value}'");
        self.environment().into_iter().map(word).collect::<Vec<_>>().join(" ")
    }

    /// Adds a user with a password, and requests a ticket. Returns the path of the credential cache.
    pub fn ticket(&self, lab: &Lab, user: &str) -> PathBuf {
        self.administer(lab, &format!("add_principal -pw secret {user}"));
        let cache = self.directory.join(format!("ticket-{}", user.replace('/', "-")));
        let line = format!("echo secret | {} kinit -f -c '{}' {user}", self.assignments(), cache.display());
        lab.sh(&line).ok("kinit");
        cache
    }

    /// Adds host principals, with keys in the key table that the environment names.
    pub fn hosts(&self, lab: &Lab, names: &[&str]) {
        for name in names {
            self.administer(lab, &format!("add_principal -randkey host/{name}"));
            self.administer(lab, &format!("ktadd -k {}/keytab host/{name}", self.directory.display()));
        }
    }

    fn administer(&self, lab: &Lab, query: &str) -> Ran {
        let program = find("kadmin.local").unwrap_or_default();
        let line = format!("{} {} -q '{query}'", self.assignments(), program.display());
        lab.sh(&line).ok(query)
    }
}

fn environment_of(directory: &Path) -> Vec<(&'static str, String)> {
    let file = |name: &str| directory.join(name).to_string_lossy().into_owned();
    vec![
        ("KRB5_CONFIG", file("krb5.conf")),
        ("KRB5_KDC_PROFILE", file("kdc.conf")),
        ("KRB5_KTNAME", format!("FILE:{}", file("keytab"))),
    ]
}

impl Drop for Realm {
    fn drop(&mut self) {
        let _ = self.centre.kill();
        let _ = self.centre.wait();
        if std::thread::panicking() {
            let log = std::fs::read_to_string(self.directory.join("kdc.log")).unwrap_or_default();
            eprintln!("--- log of the key distribution centre\n{log}");
        }
    }
}
