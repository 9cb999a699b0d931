//! Configuration files as found on users' machines: `lhssh -G` and OpenSSH's `ssh -G` must agree on them.
//!
//! The first line of each file in `wild/` names the hosts to query. Values that depend on the version or
//! distribution, not on the file (default lists, keywords that the installed version lacks), are not
//! compared.

use std::path::{Path, PathBuf};
use std::process::Command;

use lh_interop::dumps::{LISTS, by_keyword, differing, edits};
use lh_interop::{our, peers};

struct Files {
    directory: tempfile::TempDir,
}

impl Files {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let write =
            |name: &str, text: &str| std::fs::write(directory.path().join(name), text).expect("written");
        write("part-1.conf", "Host inc1\n  Port 11\n  HostName one.example\nHost inc2\n  Port 22\n");
        write("part-2.conf", "Host inc*\n  Port 99\n  Compression yes\n");
        write("inner.conf", "User inner\nHost other\n  User wrong\nHost inc?\n  StdinNull yes\n");
        Self { directory }
    }

    /// Writes the file with its placeholder filled in.
    fn place(&self, source: &Path) -> (PathBuf, String) {
        let text = std::fs::read_to_string(source).expect("readable");
        let text = text.replace("{DIR}", &self.directory.path().to_string_lossy());
        let path = self.directory.path().join(source.file_name().expect("a name"));
        std::fs::write(&path, &text).expect("written");
        (path, text)
    }

    fn dump(&self, program: &Path, file: &Path, host: &str) -> String {
        let done = Command::new(program)
            .arg("-F")
            .arg(file)
            .args(["-G", host])
            .env("SSH_AUTH_SOCK", "/run/agent")
            .output()
            .expect("runs");
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{} -F {} -G {host}: {said}", program.display(), file.display());
        String::from_utf8_lossy(&done.stdout).into_owned()
    }
}

/// Covers: ssh -G; ssh -F; ssh_config Host; ssh_config Match; ssh_config Include; ssh_config IgnoreUnknown
#[test]
fn wild_config_files_match_openssh() {
    let Some([ssh]) = peers("files_found_in_the_wild", ["ssh"]) else { return };
    let files = Files::new();
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/wild");
    let (our_default, their_default) = {
        let empty = files.directory.path().join("empty");
        std::fs::write(&empty, "").expect("written");
        (by_keyword(&files.dump(&our("lhssh"), &empty, "h")), by_keyword(&files.dump(&ssh, &empty, "h")))
    };
    let mut compared = 0;
    let mut wrong = Vec::new();
    for entry in std::fs::read_dir(directory).expect("the directory").flatten() {
        let (path, text) = files.place(&entry.path());
        let first = text.lines().next().unwrap_or_default();
        let hosts = first.trim_end().strip_prefix("# hosts: ").expect("a line with hosts");
        for host in hosts.split_whitespace() {
            let ours = by_keyword(&files.dump(&our("lhssh"), &path, host));
            let theirs = by_keyword(&files.dump(&ssh, &path, host));
            compared += theirs.len();
            for keyword in differing((&ours, &our_default), (&theirs, &their_default)) {
                let (values, name) = (&theirs[keyword], entry.file_name());
                // OpenSSH's dump also lists a forward to a Unix socket as a dynamic one.
                let misprint =
                    keyword == "dynamicforward" && values.iter().all(|value| value.starts_with('/'));
                if !(misprint || LISTS.contains(&keyword) && edits(&text, keyword)) {
                    let name = name.to_string_lossy();
                    wrong.push(format!(
                        "{name} {host}: {keyword}: {:?}, OpenSSH {values:?}",
                        ours.get(keyword)
                    ));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(compared > 1000, "only {compared} values compared");
}
