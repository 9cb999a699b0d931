//! Commands and shells go on over a new connection.

use std::fs::File;
use std::process::Stdio;

use lh_interop::cuts::Break;
use lh_interop::{Inetd, Lab, Lhsshd, Terminal, assert_same_file, make_blob, me, our, peers};

use super::{Broken, MB, PLAN};

/// Covers: ssh_config Resume; sshd_config ResumeGrace; wire resume@longhaul
#[test]
fn a_download_survives_broken_connections() {
    let setup = Broken::new("ResumeGrace 2m\n", &PLAN);
    make_blob(&setup.lab.path("blob"), 24 << 20);
    let command = format!("cat {}; exit 7", setup.lab.arg("blob"));
    let ran = setup.run(&["Resume=yes"], &command, Stdio::null());
    assert_eq!((ran.code, ran.err.as_str()), (7, ""));
    std::fs::write(setup.lab.path("copy"), &ran.out).unwrap();
    assert_same_file(&setup.lab.path("blob"), &setup.lab.path("copy"));
    assert_eq!(setup.cuts.broken(), PLAN.len());
    setup.server.await_resumptions(PLAN.len());
}

/// Covers: ssh_config Resume; sshd_config ResumeGrace; wire resume@longhaul
#[test]
fn an_upload_survives_broken_connections() {
    let setup = Broken::new("ResumeGrace 2m\n", &PLAN);
    make_blob(&setup.lab.path("blob"), 24 << 20);
    let command = format!("cat > {}; echo $?; exit 3", setup.lab.arg("copy"));
    let input = File::open(setup.lab.path("blob")).unwrap();
    let ran = setup.run(&["Resume=yes"], &command, input.into());
    assert_eq!((ran.code, ran.err.as_str(), ran.out.as_slice()), (3, "", &b"0\n"[..]));
    assert_same_file(&setup.lab.path("blob"), &setup.lab.path("copy"));
    assert_eq!(setup.cuts.broken(), PLAN.len());
}

/// Key exchanges in the middle of breaks, compression, and a chained cipher.
///
/// Covers: ssh_config Resume; wire resume@longhaul
#[test]
fn sessions_survive_breaks_with_any_cipher() {
    let plan = [(MB, Break::Reset), (MB, Break::End)];
    for options in [
        ["Resume=yes", "RekeyLimit=1M", "Ciphers=aes128-gcm@openssh.com"],
        ["Resume=yes", "Compression=yes", "Ciphers=chacha20-poly1305@openssh.com"],
        ["Resume=yes", "MACs=hmac-sha2-256", "Ciphers=aes256-ctr"],
    ] {
        let setup = Broken::new("ResumeGrace 2m\n", &plan);
        make_blob(&setup.lab.path("blob"), 6 << 20);
        let ran = setup.run(&options, &format!("cat {}", setup.lab.arg("blob")), Stdio::null()).ok("lhssh");
        std::fs::write(setup.lab.path("copy"), &ran.out).unwrap();
        assert_same_file(&setup.lab.path("blob"), &setup.lab.path("copy"));
        assert_eq!(setup.cuts.broken(), plan.len(), "{options:?}");
    }
}

/// Covers: ssh_config Resume
#[test]
fn silence_is_noticed_without_keepalives() {
    let setup = Broken::new("ResumeGrace 2m\n", &[(MB, Break::Silence), (MB, Break::Silence)]);
    make_blob(&setup.lab.path("blob"), 4 << 20);
    let command = format!("cat {}; exit 3", setup.lab.arg("blob"));
    let mut args = setup.args(&["Resume=yes"], &command);
    for arg in args.iter_mut().filter(|arg| *arg == "ServerAliveInterval=1") {
        "ServerAliveInterval=1000".clone_into(arg);
    }
    let ran = setup.lab.run(&our("lhssh"), &args);
    assert_eq!(ran.code, 3, "{}", ran.err);
    assert!(ran.out == std::fs::read(setup.lab.path("blob")).unwrap(), "{} bytes", ran.out.len());
    assert!(setup.cuts.broken() >= 1);
}

/// Both ends by default.
///
/// Covers: ssh_config Resume; sshd_config ResumeGrace
#[test]
fn sessions_go_on_by_default() {
    let setup = Broken::new("", &[(100_000, Break::Reset)]);
    let ran = setup.run(&[], "head -c 1000000 /dev/zero | tr '\\0' x", Stdio::null()).ok("lhssh");
    assert_eq!(ran.out.len(), 1_000_000);
    assert!(ran.out.iter().all(|&byte| byte == b'x'));
    assert_eq!(setup.cuts.connections(), 2);
    assert!(setup.server.log().contains("the session waits for 600 seconds"), "{}", setup.server.log());
}

/// Stock programs see nothing of the extension.
#[test]
fn stock_peers_work_with_resumption_on() {
    let Some([ssh, sshd]) = peers("stock_peers_work_with_resumption_on", ["ssh", "sshd"]) else { return };
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "ResumeGrace 2m\n");
    let mut args = lab.client_options();
    args.extend(["-p".to_owned(), server.port_arg(), format!("{}@127.0.0.1", me()), "echo hello".to_owned()]);
    assert_eq!(lab.run(&ssh, &args).ok("ssh").text(), "hello\n");
    let theirs = Inetd::openssh(&lab, &sshd, "");
    let mut args = lab.client_options();
    args.extend(["-o".to_owned(), "Resume=yes".to_owned(), "-p".to_owned(), theirs.port.to_string()]);
    args.extend([format!("{}@127.0.0.1", me()), "head -c 3000000 /dev/zero | wc -c; cat | wc -c".to_owned()]);
    make_blob(&lab.path("blob"), 3 << 20);
    let ran = lab.run_with(&our("lhssh"), &args, File::open(lab.path("blob")).unwrap().into()).ok("lhssh");
    assert_eq!(ran.text(), format!("3000000\n{}\n", 3 << 20));
}

/// A shell on a terminal: what was typed and shown is all there.
///
/// Covers: ssh_config Resume; ssh -t
#[test]
fn a_shell_survives_broken_connections() {
    let setup = Broken::new("ResumeGrace 2m\n", &[(30_000, Break::Reset), (60_000, Break::Reset)]);
    let mut args = vec!["-tt".to_owned()];
    args.extend(setup.args(&["Resume=yes"], "PS1=; stty -echo; exec sh"));
    let home = setup.lab.path("home");
    let mut shell = Terminal::start(&our("lhssh"), &args, setup.lab.dir(), &home);
    for number in 0..30 {
        shell.send(&format!("printf '%04000d' 0 | tail -c 3000; echo; echo number $(({number}+1000))\r"));
        shell.expect(&format!("number {}\r\n", number + 1000));
    }
    assert_eq!(setup.cuts.broken(), 2);
    shell.send("exit 5\r");
    assert_eq!(shell.wait(), 5);
}
