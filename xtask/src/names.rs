//! Creates a directory with links from OpenSSH's names to our programs: `target/release/openssh-names/`. With
//! this directory first on PATH, in a shell or a third-party test suite, every call of `ssh` runs `lhssh`.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::workspace::{Outcome, target_dir};

/// OpenSSH's name, our name, the path of OpenSSH's program on Debian, and its variable in OpenSSH's test
/// suite.
pub(crate) const PROGRAMS: &[(&str, &str, &str, &str)] = &[
    ("ssh", "lhssh", "/usr/bin/ssh", "TEST_SSH_SSH"),
    ("sshd", "lhsshd", "/usr/sbin/sshd", "TEST_SSH_SSHD"),
    ("scp", "lhscp", "/usr/bin/scp", "TEST_SSH_SCP"),
    ("sftp", "lhsftp", "/usr/bin/sftp", "TEST_SSH_SFTP"),
    ("sftp-server", "lhsftp-server", "/usr/lib/openssh/sftp-server", "TEST_SSH_SFTPSERVER"),
    ("ssh-keygen", "lhssh-keygen", "/usr/bin/ssh-keygen", "TEST_SSH_SSHKEYGEN"),
    ("ssh-agent", "lhssh-agent", "/usr/bin/ssh-agent", "TEST_SSH_SSHAGENT"),
    ("ssh-add", "lhssh-add", "/usr/bin/ssh-add", "TEST_SSH_SSHADD"),
    ("ssh-keyscan", "lhssh-keyscan", "/usr/bin/ssh-keyscan", "TEST_SSH_SSHKEYSCAN"),
    ("ssh-sk-helper", "lhssh-sk-helper", "/usr/lib/openssh/ssh-sk-helper", "TEST_SSH_SK_HELPER"),
    ("ssh-keysign", "lhssh-keysign", "/usr/lib/openssh/ssh-keysign", "TEST_SSH_SSHKEYSIGN"),
];

/// `cargo xtask names [--profile PROFILE]`
pub(crate) fn run(args: &[String]) -> Outcome {
    let profile = match args {
        [] => "release",
        [flag, profile] if flag == "--profile" => profile,
        _ => return Err("usage: cargo xtask names [--profile PROFILE]".to_owned()),
    };
    // Cargo's directory of the profile `dev` has the name `debug`.
    let bins = target_dir().join(if profile == "dev" { "debug" } else { profile });
    let directory = link(&bins)?;
    println!("names: {}", directory.display());
    Ok(())
}

/// Makes the directory beside the programs in `bins`. Reports and omits programs that are not built.
pub(crate) fn link(bins: &Path) -> Result<PathBuf, String> {
    let directory = bins.join("openssh-names");
    let failed = |path: &Path| {
        let path = path.display().to_string();
        move |error: std::io::Error| format!("{path}: {error}")
    };
    if !bins.is_dir() {
        return Err(format!("{}: nothing is built there", bins.display()));
    }
    fs::create_dir_all(&directory).map_err(failed(&directory))?;
    for (name, ours, ..) in PROGRAMS {
        let path = directory.join(name);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(failed(&path)(error)),
            _ => {}
        }
        if bins.join(ours).is_file() {
            // Relative, so that the whole directory can be moved.
            symlink(Path::new("..").join(ours), &path).map_err(failed(&path))?;
        } else {
            eprintln!("names: LEFT OUT {name}: {} is not built", bins.join(ours).display());
        }
    }
    Ok(directory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargo_builds_all_programs_of_users_by_default() {
        let root = crate::workspace::root();
        let manifest = fs::read_to_string(root.join("Cargo.toml")).unwrap();
        let (_, list) = manifest.split_once("\ndefault-members = [\n").unwrap();
        let (list, _) = list.split_once(']').unwrap();
        let mut listed: Vec<&str> = list
            .lines()
            .map(|line| line.trim().trim_matches(['"', ',']))
            .filter(|line| !line.is_empty())
            .collect();
        let programs = fs::read_dir(root.join("bins")).unwrap().flatten();
        let mut programs: Vec<String> =
            programs.map(|entry| format!("bins/{}", entry.file_name().to_string_lossy())).collect();
        programs.retain(|path| path != "bins/longhaul-multi");
        listed.sort_unstable();
        programs.sort();
        assert_eq!(listed, programs);
    }

    #[test]
    fn links_follow_the_built_programs() {
        let bins = std::env::temp_dir().join(format!("longhaul-names-{}", std::process::id()));
        fs::create_dir_all(&bins).unwrap();
        fs::write(bins.join("lhssh"), "").unwrap();
        fs::write(bins.join("lhscp"), "").unwrap();
        let directory = link(&bins).unwrap();
        assert!(
            directory.join("ssh").is_file()
                && directory.join("scp").is_file()
                && !directory.join("sshd").exists()
        );
        fs::remove_file(bins.join("lhscp")).unwrap();
        link(&bins).unwrap();
        assert!(directory.join("ssh").is_file() && directory.join("scp").symlink_metadata().is_err());
        fs::remove_dir_all(&bins).unwrap();
    }
}
