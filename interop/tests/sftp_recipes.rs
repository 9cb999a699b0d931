//! SFTP configurations as administrators write them, used by OpenSSH's client and compared with OpenSSH's
//! server.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use lh_interop::{
    Inetd, Lab, Lhsshd, Ran, TestUser, eventually, find, is_root, open_to_all, peers, safe_directory, skip,
};

/// Debian's path of OpenSSH's SFTP server.
const DEBIANS: &str = "/usr/lib/openssh/sftp-server";

/// Runs a batch as a user.
fn batch(lab: &Lab, sftp: &Path, port: u16, user: &str, lines: &str) -> Ran {
    lab.write("batch", lines);
    let mut args = lab.client_options();
    args.extend(["-q", "-P", &port.to_string(), "-b", &lab.arg("batch")].map(str::to_owned));
    args.push(format!("{user}@127.0.0.1"));
    lab.run(sftp, &args)
}

/// Returns the name of the user's group.
fn group_of(lab: &Lab, user: &str) -> String {
    lab.run(Path::new("id"), &["-gn", user]).ok("id").text().trim().to_owned()
}

/// Covers: sshd_config ChrootDirectory; sshd_config ForceCommand; Match Group (a home that is not inside)
#[test]
fn a_chroot_without_the_home_starts_at_its_root() {
    if !is_root() {
        return skip("chroot_recipe", "needs root");
    }
    let Some([sftp, ssh]) = peers("chroot_recipe", ["sftp", "ssh"]) else { return };
    let jails = safe_directory();
    fs::set_permissions(jails.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let lab = Lab::new();
    let user = TestUser::new(&lab);
    let group = group_of(&lab, &user.name);
    let upload = jails.path().join(&user.name).join("upload");
    fs::create_dir_all(&upload).unwrap();
    lab.run(Path::new("chown"), &[&format!("{}:", user.name), &upload.display().to_string()]).ok("chown");
    let rules = format!(
        "Match Group {group}\n  ChrootDirectory {}/%u\n  ForceCommand internal-sftp\n  AllowTcpForwarding no\n",
        jails.path().display()
    );
    lab.write("match.conf", &rules);
    open_to_all(&lab.path("authorized_keys"));
    let config = format!("Include {}", lab.arg("match.conf"));
    lab.write("file", "contents\n");
    let lines = format!("pwd\nput {} upload/new\nls -1 upload\nrm upload/new\n", lab.arg("file"));
    let server = Lhsshd::start(&lab, &config);
    let ours = batch(&lab, &sftp, server.port, &user.name, &lines);
    assert!(ours.text().contains("Remote working directory: /\n"), "{}{}", ours.text(), ours.err);
    assert_eq!((ours.code, ours.err.as_str()), (0, ""));
    if let Some(sshd) = find("sshd") {
        let theirs = Inetd::openssh(&lab, &sshd, &config);
        let theirs = batch(&lab, &sftp, theirs.port, &user.name, &lines);
        assert_eq!((theirs.code, theirs.text(), theirs.err), (ours.code, ours.text(), ours.err));
    } else {
        skip("chroot_recipe_beside_openssh", "not installed: sshd");
    }
    // A command is replaced by the forced one, and there is no message about the home.
    let mut args = lab.client_options();
    args.extend(["-p".to_owned(), server.port_arg(), format!("{}@127.0.0.1", user.name), "true".to_owned()]);
    assert!(!lab.run(&ssh, &args).err.contains("Could not chdir"));
}

/// Covers: accounts without a home directory
#[test]
fn an_account_without_a_home_starts_at_the_root() {
    if !is_root() {
        return skip("no_home", "needs root");
    }
    let Some([sftp, ssh]) = peers("no_home", ["sftp", "ssh"]) else { return };
    let lab = Lab::new();
    let user = TestUser::new(&lab);
    fs::remove_dir_all(&user.home).unwrap();
    open_to_all(&lab.path("authorized_keys"));
    let server = Lhsshd::start(&lab, "");
    let theirs = find("sshd").map(|sshd| Inetd::openssh(&lab, &sshd, ""));
    if theirs.is_none() {
        skip("no_home_beside_openssh", "not installed: sshd");
    }
    let ports = [Some(server.port), theirs.as_ref().map(|theirs| theirs.port)];
    for port in ports.into_iter().flatten() {
        let ran = batch(&lab, &sftp, port, &user.name, "pwd\n");
        assert_eq!((ran.code, ran.err.as_str()), (0, ""));
        assert!(ran.text().contains("Remote working directory: /\n"), "{}", ran.text());
        let mut args = lab.client_options();
        args.extend([
            "-p".to_owned(),
            port.to_string(),
            format!("{}@127.0.0.1", user.name),
            "pwd".to_owned(),
        ]);
        let ran = lab.run(&ssh, &args);
        let notice =
            format!("Could not chdir to home directory {}: No such file or directory", user.home.display());
        assert_eq!((ran.code, ran.text().as_str()), (0, "/\n"));
        assert_eq!(ran.err.lines().filter(|line| *line == notice).count(), 1, "{}", ran.err);
    }
}

/// Covers: sshd_config Subsystem (Debian's own line); sshd_config LonghaulSftp
#[test]
fn debian_s_subsystem_line_means_the_internal_server() {
    let Some([sftp]) = peers("debians_subsystem", ["sftp"]) else { return };
    let me = lh_interop::me();
    for (line, logged) in [
        ("", "serving SFTP by internal-sftp in place of /usr/lib/openssh/sftp-server"),
        ("LonghaulSftp external", "serving SFTP by /usr/lib/openssh/sftp-server, not by internal-sftp"),
    ] {
        if !line.is_empty() && !Path::new(DEBIANS).exists() {
            skip("debians_subsystem", "OpenSSH's sftp-server is not installed");
            continue;
        }
        let lab = Lab::new();
        let server = Lhsshd::start(&lab, &format!("Subsystem sftp {DEBIANS}\n{line}"));
        batch(&lab, &sftp, server.port, &me, "pwd\n").ok("batch");
        eventually(logged, || server.log().contains(logged));
    }
}

/// A client that names the program itself gets what its shell makes of that, as with sshd.
///
/// Covers: sshd_config LonghaulSftp
#[test]
fn sftp_server_with_other_arguments_is_that_program() {
    let Some([ssh, sftp]) = peers("sftp_server_arguments", ["ssh", "sftp"]) else { return };
    if !Path::new(DEBIANS).exists() {
        return skip("sftp_server_arguments", "OpenSSH's sftp-server is not installed");
    }
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "");
    let me = lh_interop::me();
    let ask = |command: &str| {
        let mut args = lab.client_options();
        args.extend(["-p".to_owned(), server.port_arg(), format!("{me}@127.0.0.1"), command.to_owned()]);
        lab.run(&ssh, &args)
    };
    for arguments in ["-Q requests", "-h 2>&1", "-Q requests 2>/dev/null | head -n 1; echo end"] {
        let command = format!("{DEBIANS} {arguments}");
        let here = lab.run(Path::new("/bin/sh"), &["-c".to_owned(), command.clone()]);
        let there = ask(&command);
        assert_eq!((there.code, there.text()), (here.code, here.text()), "{command}: {}", there.err);
        assert!(!there.text().is_empty(), "{command}");
    }
    let logged = format!("serving SFTP by {DEBIANS}, not by internal-sftp");
    eventually("it is logged", || server.log().matches(&logged).count() == 3);
    // Alone it is replaced, and the log says so.
    let mut args = lab.client_options();
    args.extend(["-P".to_owned(), server.port_arg(), "-s".to_owned(), DEBIANS.to_owned()]);
    lab.write("batch", "pwd\n");
    args.extend(["-b".to_owned(), lab.arg("batch"), format!("{me}@127.0.0.1")]);
    lab.run(&sftp, &args).ok("sftp -s");
    let logged = format!("serving SFTP by internal-sftp in place of {DEBIANS}");
    eventually("it is logged", || server.log().contains(&logged));
}
