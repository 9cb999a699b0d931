//! Installed paths of all files: one table for all kinds of packages.

use std::fs;
use std::path::Path;

use lh_cli::flags::PROGRAMS;

use super::build::Program;
use super::source::{Source, failed};
use super::tree::{Item, gzip};

/// Directory of the programs.
pub(super) const LIB: &str = "usr/lib/longhaul";

/// Programs with a link in `/usr/bin`.
pub(super) const USER: [&str; 8] =
    ["lhssh", "lhscp", "lhsftp", "lhssh-keygen", "lhssh-agent", "lhssh-add", "lhssh-keyscan", "longhaul"];

/// Links under OpenSSH's names, in `/usr/bin`.
pub(super) const OPENSSH: [(&str, &str); 7] = [
    ("ssh", "lhssh"),
    ("scp", "lhscp"),
    ("sftp", "lhsftp"),
    ("ssh-keygen", "lhssh-keygen"),
    ("ssh-agent", "lhssh-agent"),
    ("ssh-add", "lhssh-add"),
    ("ssh-keyscan", "lhssh-keyscan"),
];

/// Kinds of systems between which the server's files differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum System {
    Debian,
    RedHat,
}

/// The contents of all packages.
pub(super) struct Parts {
    /// The programs, their links and documents for users.
    client: Vec<Item>,
    /// Files of the server that are equal on every system.
    server: Vec<Item>,
    names: Vec<Item>,
    packaging: std::path::PathBuf,
    pub licences: String,
    pub changelog: String,
}

impl Parts {
    pub(super) fn new(source: &Source, programs: &[Program], licences: &str) -> Result<Self, String> {
        let packaging = source.root.join("packaging");
        let pages = crate::docs::files_dated(source.epoch);
        let page = |name: &str| pages.iter().find(|(path, _)| path.ends_with(name)).map(|(_, text)| text);
        let read = |path: &str| {
            let path = source.root.join(path);
            fs::read_to_string(&path).map_err(failed(&path))
        };
        let mut client: Vec<Item> = programs
            .iter()
            .map(|program| Item::program(format!("{LIB}/{}", program.name), &program.file))
            .collect();
        // Programs look for each other in the directory of their own file.
        for program in PROGRAMS.iter().filter(|program| program.name != "longhaul") {
            client.push(Item::link(format!("{LIB}/{}", program.name), "longhaul"));
        }
        // One file contains both helpers that load libraries.
        if programs.iter().any(|program| program.name == "lhssh-pkcs11-helper") {
            client.push(Item::link(format!("{LIB}/lhssh-sk-helper"), "lhssh-pkcs11-helper"));
        }
        client.extend(USER.map(|name| Item::link(format!("usr/bin/{name}"), "../lib/longhaul/longhaul")));
        let mut server = vec![Item::link("usr/sbin/lhsshd", "../lib/longhaul/longhaul")];
        for (path, text) in &pages {
            let (item, name) = match path.split('/').collect::<Vec<_>>()[..] {
                ["man", section, name] => {
                    (Item::text(format!("usr/share/man/{section}/{name}.gz"), gzip(text.as_bytes())?), name)
                }
                ["completions", "bash", name] => {
                    (Item::text(format!("usr/share/bash-completion/completions/{name}"), text.as_str()), name)
                }
                ["completions", "zsh", name] => {
                    (Item::text(format!("usr/share/zsh/vendor-completions/{name}"), text.as_str()), name)
                }
                ["completions", "fish", name] => {
                    (Item::text(format!("usr/share/fish/vendor_completions.d/{name}"), text.as_str()), name)
                }
                _ => return Err(format!("{path}: where is it installed?")),
            };
            let of_server = name
                .trim_start_matches('_')
                .split('.')
                .next()
                .is_some_and(|name| name == "lhsshd" || name == "lhsshd_config");
            if of_server { server.push(item) } else { client.push(item) }
        }
        for unit in ["lhssh-agent.service", "lhssh-agent.socket"] {
            let text = read(&format!("packaging/systemd/{unit}"))?;
            client.push(Item::text(format!("usr/lib/systemd/user/{unit}"), text));
        }
        for (to, from) in [
            ("usr/lib/systemd/system/lhsshd.service", "systemd/lhsshd.service"),
            ("usr/lib/systemd/system/lhsshd.socket", "systemd/lhsshd.socket"),
            ("usr/lib/sysusers.d/longhaul-server.conf", "config/sysusers.conf"),
            ("usr/lib/tmpfiles.d/longhaul-server.conf", "config/tmpfiles.conf"),
        ] {
            server.push(Item::text(to, read(&format!("packaging/{from}"))?));
        }
        for (to, from) in [
            ("etc/ssh/lhsshd_config", "config/lhsshd_config"),
            ("etc/logrotate.d/longhaul-server", "config/logrotate"),
        ] {
            server.push(Item::config(to, read(&format!("packaging/{from}"))?));
        }
        server.push(Item::directory("etc/ssh/lhsshd_config.d"));
        let mut names = Vec::new();
        for (theirs, ours) in OPENSSH {
            names.push(Item::link(format!("usr/bin/{theirs}"), "../lib/longhaul/longhaul"));
            if page(&format!("/{ours}.1")).is_none() {
                return Err(format!("{ours} has no manual page"));
            }
            names.push(Item::link(format!("usr/share/man/man1/{theirs}.1.gz"), format!("{ours}.1.gz")));
        }
        let changelog = read("CHANGELOG.md")?;
        Ok(Self { client, server, names, packaging, licences: licences.to_owned(), changelog })
    }

    pub(super) fn client(&self) -> &[Item] {
        &self.client
    }

    pub(super) fn names(&self) -> &[Item] {
        &self.names
    }

    pub(super) fn server(&self, system: System) -> Result<Vec<Item>, String> {
        let read = |path: &str| self.file(path);
        let mut items = self.server.clone();
        match system {
            System::Debian => {
                items.push(Item::config("etc/pam.d/lhsshd", read("config/pam-debian")?));
                items.push(Item::config("etc/default/lhsshd", read("config/default-lhsshd")?));
                items.push(Item::config("etc/apparmor.d/lhsshd", read("apparmor/lhsshd")?));
            }
            System::RedHat => {
                items.push(Item::config("etc/pam.d/lhsshd", read("config/pam-redhat")?));
                items.push(Item::config("etc/default/lhsshd", read("config/default-lhsshd")?));
            }
        }
        Ok(items)
    }

    /// Returns the text of a file below `packaging/`.
    pub(super) fn file(&self, path: &str) -> Result<String, String> {
        let path: &Path = &self.packaging.join(path);
        fs::read_to_string(path).map_err(failed(path))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tree::What;
    use super::*;

    fn parts() -> Parts {
        let root = crate::workspace::root();
        let source = Source { build: root.clone(), out: root.clone(), root, built: None, epoch: 0 };
        let program = |name| Program { name, file: "x".into(), symbols: "x".into(), build_id: "x".into() };
        let programs = ["longhaul", "lhssh-pkcs11-helper", "lhssh-keysign"].map(program);
        Parts::new(&source, &programs, "").unwrap()
    }

    #[test]
    fn paths_in_units_are_installed() {
        let parts = parts();
        let server = parts.server(System::Debian).unwrap();
        let installed: Vec<&str> =
            parts.client().iter().chain(&server).map(|item| item.path.as_str()).collect();
        let mut checked = 0;
        for item in parts.client().iter().chain(&server) {
            let What::Text(text, _) = &item.what else { continue };
            let text = String::from_utf8_lossy(text);
            for line in text.lines().filter(|_| item.path.contains("systemd/")) {
                let Some((key, value)) = line.split_once('=') else { continue };
                let words: Vec<&str> = value.split_whitespace().collect();
                let ours = words.iter().map(|word| word.trim_start_matches('-').trim_start_matches('/'));
                let wanted = |path: &&str| path.starts_with("usr/") || path.starts_with("etc/");
                for path in
                    ours.filter(wanted).filter(|_| key.starts_with("Exec") || key == "EnvironmentFile")
                {
                    assert!(installed.contains(&path), "{}: /{path} is not installed", item.path);
                    checked += 1;
                }
            }
        }
        assert!(checked >= 6, "{checked} paths");
    }

    #[test]
    fn links_lead_to_installed_files() {
        let parts = parts();
        let server = parts.server(System::RedHat).unwrap();
        let all: Vec<&Item> = parts.client().iter().chain(&server).chain(parts.names()).collect();
        for item in &all {
            let What::Link(to) = &item.what else { continue };
            let mut path: Vec<&str> = item.path.split('/').collect();
            path.pop();
            for part in to.split('/') {
                if part == ".." {
                    path.pop();
                } else {
                    path.push(part)
                }
            }
            let target = path.join("/");
            assert!(all.iter().any(|other| other.path == target), "{} -> {to}", item.path);
        }
    }
}
