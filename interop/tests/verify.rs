//! Digests for other programs, and copies that are compared with their source.

use std::fs;
use std::path::Path;

use lh_interop::{Inetd, Lab, Lhsshd, assert_same_file, make_blob, our, peers};

fn scp(lab: &Lab, port: u16, words: &[&str]) -> lh_interop::Ran {
    let mut all = lab.client_options();
    all.extend(["-P".to_owned(), port.to_string()]);
    all.extend(words.iter().map(|&word| word.to_owned()));
    lab.run(&our("lhscp"), &all)
}

/// Returns a number from the last line of `--json`.
fn told(json: &str, name: &str) -> u64 {
    let line = json.lines().last().unwrap_or_default();
    let rest = line.split(&format!("\"{name}\":")).nth(1).unwrap_or_else(|| panic!("{name} in {json}"));
    rest.split([',', '}']).next().unwrap_or_default().parse().unwrap()
}

/// Covers: wire check-file
#[test]
fn paramiko_gets_digests_without_a_shell() {
    // Debian's Python, for which Debian's paramiko is installed.
    let python = Path::new("/usr/bin/python3");
    let lab = Lab::new();
    if lab.run(python, &["-W", "ignore", "-c", "import paramiko"]).code != 0 {
        let why = "Debian's python3-paramiko is not installed";
        return lh_interop::skip("paramiko_gets_digests_without_a_shell", why);
    }
    let server = Lhsshd::start(&lab, "");
    make_blob(&lab.path("blob"), 1_000_003);
    let script = format!(
        "import paramiko, hashlib\n\
         t = paramiko.Transport(('127.0.0.1', {}))\n\
         t.connect(username={:?}, pkey=paramiko.Ed25519Key.from_private_key_file({:?}))\n\
         s = paramiko.SFTPClient.from_transport(t)\n\
         f = s.open({:?}, 'rb')\n\
         d = open({:?}, 'rb').read()\n\
         for name in ('md5', 'sha1', 'sha256', 'sha512'):\n\
         \x20   assert f.check(name) == hashlib.new(name, d).digest(), name\n\
         blocks = b''.join(hashlib.sha256(d[i:i+300000]).digest() for i in range(0, len(d), 300000))\n\
         assert f.check('sha256', 0, 0, 300000) == blocks\n\
         assert f.check('sha256', 10, 20) == hashlib.sha256(d[10:30]).digest()\n\
         for wrong in (('crc7', 0, 0, 0), ('md5', 0, 0, 100)):\n\
         \x20   try:\n\
         \x20       f.check(*wrong)\n\
         \x20   except IOError:\n\
         \x20       continue\n\
         \x20   raise SystemExit('must fail: %r' % (wrong,))\n\
         t.close()\n",
        server.port,
        lh_interop::me(),
        lab.arg("user_ed25519"),
        lab.arg("blob"),
        lab.arg("blob"),
    );
    lab.write("check.py", &script);
    lab.run(python, &["-W", "ignore", &lab.arg("check.py")]).ok("paramiko");
}

/// Covers: lhscp --verify; lhscp --no-verify; lhscp --json; wire running-sum@longhaul
#[test]
fn copies_between_two_of_ours_are_compared_unless_told_not_to() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "");
    make_blob(&lab.path("blob"), 3_000_001);
    for (flags, verified) in
        [(&["--json"][..], 1), (&["--json", "--no-verify"], 0), (&["--json", "--verify"], 1)]
    {
        let there = format!("127.0.0.1:{}", lab.arg("there"));
        let back = lab.arg("back");
        let up = scp(&lab, server.port, &[flags, &[&lab.arg("blob"), &there]].concat()).ok("upload");
        let down = scp(&lab, server.port, &[flags, &[&there, &back]].concat()).ok("download");
        assert_same_file(&lab.path("blob"), Path::new(&back));
        for ran in [up, down] {
            assert_eq!(told(&ran.text(), "verified"), verified, "{flags:?}: {}", ran.text());
            assert_eq!(told(&ran.text(), "bytes"), 3_000_001);
        }
        fs::remove_file(lab.path("there")).unwrap();
    }
}

/// Covers: lhscp --verify
#[test]
fn towards_openssh_verify_reads_back() {
    let Some([sshd]) = peers("towards_openssh_verify_reads_back", ["sshd"]) else { return };
    let lab = Lab::new();
    let server = Inetd::openssh(&lab, &sshd, "");
    make_blob(&lab.path("blob"), 3_000_001);
    let there = format!("127.0.0.1:{}", lab.arg("there"));
    for (flags, verified) in [(&["--json"][..], 0), (&["--json", "--verify"], 1)] {
        let up = scp(&lab, server.port, &[flags, &[&lab.arg("blob"), &there]].concat()).ok("upload");
        let down = scp(&lab, server.port, &[flags, &[&there, &lab.arg("back")]].concat()).ok("download");
        assert_same_file(&lab.path("blob"), &lab.path("back"));
        for ran in [up, down] {
            assert_eq!(told(&ran.text(), "verified"), verified, "{flags:?}: {}", ran.text());
        }
    }
}
