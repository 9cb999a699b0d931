//! Output on both streams. Each line is written in one piece, because many threads print.

use std::io::{self, Write as _};

use lh_client::{known_hosts, sanitise};
use lh_crypto::{PublicKey, SshfpHash, SystemRandom};

/// Prints what was found, as the flags say.
pub(crate) struct Printer {
    pub(crate) port: u16,
    /// Leave out the comments about servers.
    pub(crate) quiet: bool,
    /// Print details of every connection.
    pub(crate) verbose: bool,
    /// `-H`.
    pub(crate) hash_names: bool,
    /// `-D`: as DNS records with these hashes.
    pub(crate) sshfp: Option<Vec<SshfpHash>>,
    /// `-c`: keys are certificates.
    pub(crate) certificates: bool,
}

impl Printer {
    /// Prints the identification of a server.
    pub(crate) fn server(&self, name: &str, identification: &str) {
        if !self.quiet {
            let mark = if self.sshfp.is_some() { ';' } else { '#' };
            self.error(&format!("{mark} {name}:{} {}", self.port, sanitise(identification)));
        }
    }

    /// Prints an error.
    #[allow(clippy::unused_self)]
    pub(crate) fn error(&self, text: &str) {
        // If this fails, there is no output left to report it on.
        let _ = io::stderr().write_all(format!("{text}\n").as_bytes());
    }

    /// Prints a detail of a connection, for `-v`.
    pub(crate) fn detail(&self, text: &str) {
        if self.verbose {
            self.error(&sanitise(text));
        }
    }

    /// Prints a key for all names of its host.
    pub(crate) fn key(&self, names: &str, key: &PublicKey) {
        let text = self.lines(names, key);
        let mut out = io::stdout().lock();
        let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    }

    fn lines(&self, names: &str, key: &PublicKey) -> String {
        if let Some(hashes) = &self.sshfp {
            return names
                .split(',')
                .flat_map(|name| hashes.iter().map(move |hash| record(name, key, *hash)))
                .collect();
        }
        let line = key.to_openssh_line("");
        if self.certificates {
            // A certificate contains its host names itself.
            return format!("{line}\n");
        }
        if !self.hash_names && self.port == 22 {
            return format!("{} {line}\n", names.to_ascii_lowercase());
        }
        let each = |name: &str| {
            let name = known_hosts::name(name, self.port);
            let shown = if self.hash_names { known_hosts::hash_name(&name, &mut SystemRandom) } else { name };
            format!("{shown} {line}\n")
        };
        names.split(',').map(each).collect()
    }
}

/// An SSHFP record; empty for key types without a number.
fn record(name: &str, key: &PublicKey, hash: SshfpHash) -> String {
    let SshfpHash { number, hash, .. } = hash;
    let key = key.plain();
    let Some(algorithm) = key.sshfp_algorithm() else { return String::new() };
    let digest = hash.digest(&[key.blob()]);
    let hex: String = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{name} IN SSHFP {algorithm} {number} {hex}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl";

    fn printer(port: u16) -> Printer {
        Printer { port, quiet: false, verbose: false, hash_names: false, sshfp: None, certificates: false }
    }

    fn key() -> PublicKey {
        PublicKey::from_openssh_line(KEY).expect("a key").0
    }

    #[test]
    fn output_has_the_form_of_known_hosts() {
        assert_eq!(printer(22).lines("Host,10.0.0.1", &key()), format!("host,10.0.0.1 {KEY}\n"));
        assert_eq!(
            printer(2222).lines("h,10.0.0.1", &key()),
            format!("[h]:2222 {KEY}\n[10.0.0.1]:2222 {KEY}\n")
        );
        let hashed = Printer { hash_names: true, ..printer(22) }.lines("h,i", &key());
        assert_eq!(hashed.lines().filter(|line| line.starts_with("|1|")).count(), 2);
    }

    #[test]
    fn dns_records_have_one_line_per_hash() {
        let shown = Printer { sshfp: Some(SshfpHash::ALL.to_vec()), ..printer(22) }.lines("h", &key());
        let lines: Vec<&str> = shown.lines().collect();
        assert!(lines[0].starts_with("h IN SSHFP 4 1 ") && lines[0].len() == 15 + 40, "{shown}");
        assert!(lines[1].starts_with("h IN SSHFP 4 2 ") && lines[1].len() == 15 + 64, "{shown}");
    }
}
