//! `lhsftp` with other people's servers and ours, and what its users see.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use lh_interop::{
    Inetd, Lab, Lhsshd, Ran, Terminal, assert_same_file, assert_same_tree, make_blob, make_tree, me, our,
    peers, skip,
};

/// Runs a program of the family of `sftp` on a local server, with a script on its standard input or as its batch.
struct Local<'a> {
    lab: &'a Lab,
    program: std::path::PathBuf,
    server: String,
}

impl<'a> Local<'a> {
    fn new(lab: &'a Lab) -> Self {
        let server = our("lhsftp-server").to_string_lossy().into_owned();
        Self { lab, program: our("lhsftp"), server }
    }

    fn run(&self, flags: &[&str], script: &str) -> Ran {
        self.lab.write("script", script);
        let mut args: Vec<String> = flags.iter().map(|&flag| flag.to_owned()).collect();
        args.extend(["-D".to_owned(), self.server.clone()]);
        let stdin = fs::File::open(self.lab.path("script")).unwrap();
        self.lab.run_with(&self.program, &args, stdin.into())
    }

    fn batch(&self, flags: &[&str], script: &str) -> Ran {
        let mut flags = flags.to_vec();
        flags.extend(["-b", "script"]);
        self.run(&flags, script)
    }
}

/// Files in `r` and `l` that the scripts of this file work on.
fn prepare(lab: &Lab) {
    for dir in ["r", "l"] {
        let _ = fs::remove_dir_all(lab.path(dir));
    }
    fs::create_dir_all(lab.path("r/d/sub")).unwrap();
    fs::create_dir_all(lab.path("l/t/s")).unwrap();
    for (name, text) in [
        ("r/f1", "hi\n"),
        ("r/f 2", "there\n"),
        ("r/st*r", ""),
        ("r/q\"uote", "q"),
        ("r/d/x", "x\n"),
        ("r/d/sub/y", "y\n"),
        ("l/u1", "1\n"),
        ("l/u 2", "2\n"),
        ("l/t/a", "a\n"),
        ("l/t/s/b", "b\n"),
    ] {
        fs::write(lab.path(name), text).unwrap();
    }
    for (target, name) in
        [("f1", "r/lnk"), ("nowhere", "r/dang"), ("x", "r/d/lx"), ("a", "l/t/la"), ("s", "l/t/ls")]
    {
        symlink(target, lab.path(name)).unwrap();
    }
}

/// Lines of both outputs without the carriage returns of OpenSSH's messages.
fn said(ran: &Ran) -> (Vec<String>, Vec<String>) {
    let lines = |text: &str| text.lines().map(|line| line.trim_end_matches('\r').to_owned()).collect();
    (lines(&ran.text()), lines(&ran.err))
}

/// What the script below leaves behind, and what both programs say about it, must be the same.
const SCRIPT: &str = r#"pwd
version
cd r
ls
ls -1
ls -1 d
ls -1r f*
ls -1S f1 d
ls -1 ./d
ls -1 */x
ls -1 lnk
ls dang
ls nope
ls -Z
ls "f 2"
bogus
get
put
rm
rename f1
chmod 9 f1
lumask 99
get "unterminated
lcd ../l
lcd l
lpwd
lls -1
get f1
get f1 nodir/x
get nope
get nope*
get "f 2"
get f\ 2 esc
get 'st*r'
get st\*r y
get "q\"uote" q
get d
get -r d
get -r d dd
get lnk
get f1 "f 2" ignored
get f* nodir
get f* .
get -a f1
get -p f1 p1
get -z f1
reget f1
put nope
put u1
put u1 newname
put u*
put u1 d
put u1 nodir/x
put t
put -r t
put -r t t2
put u* nodir
put -f u1 synced
reput u1
mkdir m
rmdir m
rmdir m
rm f1
rm f1
rm nope*
rm u*
rename nope x
rename newname new2
rename -l new2 t
ln -s target sl
ln new2 hard
ln nope nope2
symlink x sl
chmod 600 new2
chmod 640 n*
chmod 600 nope
chown 0 nope
cp new2 copied
cp nope x
cp d x
copy one
lmkdir made
lmkdir made
lcd nope
cd nope
cd new2
cd d
pwd
cd ..
cd
pwd
!true
!exit 3
lumask 077
@pwd
-@pwd
# a comment

bye
pwd
"#;

/// Covers: sftp -D; wire SFTP client commands
#[test]
fn a_session_says_and_does_what_openssh_s_does() {
    let Some([sftp]) = peers("a_session_says_and_does_what_openssh_s_does", ["sftp"]) else { return };
    let lab = Lab::new();
    let mut seen = Vec::new();
    // Ours says more about some failures than OpenSSH's, whose server both get here.
    let server = "/usr/lib/openssh/sftp-server";
    if !std::path::Path::new(server).exists() {
        return skip("a_session_says_and_does_what_openssh_s_does", "no sftp-server of OpenSSH");
    }
    for program in [sftp, our("lhsftp")] {
        prepare(&lab);
        let local = Local { program, server: server.to_owned(), ..Local::new(&lab) };
        let ran = local.run(&[], SCRIPT);
        assert_eq!(ran.code, 0, "{}", ran.err);
        let left = lab.sh("find r l -printf '%p %y %m %s %l\\n' | sort").ok("find").text();
        seen.push((said(&ran), left));
    }
    let (theirs, ours) = (&seen[0], &seen[1]);
    for (theirs, ours) in [(&theirs.0.0, &ours.0.0), (&theirs.0.1, &ours.0.1)] {
        for (theirs, ours) in theirs.iter().zip(ours) {
            // Columns may be as wide as anybody likes, and a folder of the command line may have its slash.
            let plain = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ").replace("/ ", " ");
            let plain =
                |line: &str| plain(line).trim_end_matches('/').replace("/\"", "\"").replace("/:", ":");
            assert_eq!(plain(theirs), plain(ours));
        }
        assert_eq!(theirs.len(), ours.len(), "{theirs:#?}\n{ours:#?}");
    }
    assert_eq!(theirs.1, ours.1);
}

/// Covers: sftp -b; sftp -N; sftp -q
#[test]
fn a_batch_ends_at_the_first_failure() {
    let lab = Lab::new();
    prepare(&lab);
    let local = Local::new(&lab);
    let ran = local.batch(&[], "pwd\nls nope\nmkdir after\n");
    assert_eq!(ran.code, 1);
    assert_eq!(
        ran.text(),
        format!("sftp> pwd\nRemote working directory: {}\nsftp> ls nope\n", lab.dir().display())
    );
    assert_eq!(ran.err.trim(), format!("Can't ls: \"{}\" not found", lab.arg("nope")));
    assert!(!lab.path("after").exists());

    let ran = local.batch(&[], "-ls nope\n@mkdir after\nget r/f1 l\n!false\n");
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(ran.text(), "sftp> -ls nope\nsftp> get r/f1 l\nsftp> !false\n");
    assert!(lab.path("after").is_dir());
    assert!(local.batch(&["-N"], "get r/f1 l").text().contains("Fetching "));

    for failing in [
        "rm nope",
        "rmdir nope",
        "mkdir r",
        "rename nope a",
        "ln nope a",
        "ln -s x r/lnk",
        "chmod 600 nope",
        "chown 0 nope",
        "chgrp 0 nope",
        "cd nope",
        "lcd nope",
        "lmkdir l",
        "get nope",
        "put nope",
        "get r/d",
        "put l/t",
        "df nope",
        "cp nope a",
        "bogus",
        "ls nope",
        "reput l/u1 r/f1",
    ] {
        let ran = local.batch(&[], &format!("{failing}\n"));
        assert_eq!(ran.code, 1, "{failing}: {}", ran.err);
        let ran = local.run(&[], &format!("{failing}\n"));
        assert_eq!(ran.code, 0, "{failing} of no batch: {}", ran.err);
        assert!(!ran.err.is_empty(), "{failing}");
    }
    // `-b -` reads standard input, where the script is too.
    assert_eq!(local.run(&["-b", "-"], "ls nope\n").code, 1);
    let ran = lab.run(&our("lhsftp"), &["-b", "no such file", "-D", &local.server]);
    assert_eq!((ran.code, ran.err.trim()), (255, "No such file or directory (no such file)."));
}

/// Covers: sftp -r; sftp -p; sftp -f; sftp -B; sftp -R; sftp -X; sftp -l
#[test]
fn trees_keep_what_they_are_told_to_keep() {
    let lab = Lab::new();
    make_tree(&lab.path("tree"), 300);
    fs::remove_file(lab.path("tree/link to a file")).unwrap();
    fs::set_permissions(lab.path("tree/empty"), fs::Permissions::from_mode(0o640)).unwrap();
    lab.sh("touch -d '2001-02-03 04:05:06' tree/empty 'tree/empty dir'").ok("touch");
    let local = Local::new(&lab);
    let flags: [&[&str]; 3] = [
        &["-rpf"],
        &["-r", "-p", "-B", "1000", "-R", "3"],
        &["-rp", "-X", "nrequests=2", "-X", "buffer=4000"],
    ];
    for flags in flags {
        local.batch(flags, "put tree up\nget up down\n").ok("both ways");
        assert_same_tree(&lab.path("tree"), &lab.path("up"));
        assert_same_tree(&lab.path("tree"), &lab.path("down"));
        for name in ["empty", "empty dir"] {
            let [before, after] =
                ["tree", "down"].map(|tree| fs::metadata(lab.path(tree).join(name)).unwrap());
            assert_eq!((before.mode(), before.mtime()), (after.mode(), after.mtime()), "{name}");
        }
        lab.sh("rm -rf up down").ok("rm");
    }
    // 400 KB at 8000 Kbit/s (1 MB/s) cannot be there at once; a bound from below is no matter of luck.
    make_blob(&lab.path("blob"), 400_000);
    let begun = std::time::Instant::now();
    local.batch(&["-l", "8000"], "put blob slow\n").ok("slowly");
    assert!(begun.elapsed().as_millis() >= 200, "{:?}", begun.elapsed());
    assert_same_file(&lab.path("blob"), &lab.path("slow"));
}

/// Covers: sftp -a
#[test]
fn an_interrupted_copy_is_resumed_and_nothing_else() {
    let lab = Lab::new();
    make_blob(&lab.path("whole"), 3_000_001);
    let whole = fs::read(lab.path("whole")).unwrap();
    let local = Local::new(&lab);
    for (command, flags) in [("reget", &[][..]), ("reput", &[]), ("get -a", &[]), ("put", &["-a"])] {
        // What is there is taken to be right: marked, so that it shows whether it was copied again.
        let mut part = whole[..1_000_000].to_vec();
        part[0] ^= 0xff;
        fs::write(lab.path("part"), &part).unwrap();
        let ran = local.batch(flags, &format!("{command} whole part\n")).ok(command);
        let mut expected = whole.clone();
        expected[0] ^= 0xff;
        assert!(fs::read(lab.path("part")).unwrap() == expected, "{command}");
        assert_eq!(ran.err, "", "{command}");
        // Missing: copied whole.
        fs::remove_file(lab.path("part")).unwrap();
        local.batch(flags, &format!("{command} whole part\n")).ok(command);
        assert_same_file(&lab.path("whole"), &lab.path("part"));
        // Longer: refused and left alone.
        fs::write(lab.path("part"), [&whole[..], b"more"].concat()).unwrap();
        let ran = local.batch(flags, &format!("{command} whole part\n"));
        assert_eq!(ran.code, 1, "{command}");
        assert!(ran.err.contains("larger"), "{command}: {}", ran.err);
        assert_eq!(fs::metadata(lab.path("part")).unwrap().len(), whole.len() as u64 + 4);
        fs::remove_file(lab.path("part")).unwrap();
    }
    fs::copy(lab.path("whole"), lab.path("part")).unwrap();
    let ran = local.batch(&[], "reget whole part\n").ok("complete");
    assert_eq!(ran.err.trim(), "File \"part\" was not modified");
    assert_same_file(&lab.path("whole"), &lab.path("part"));
    // Of a tree, what is missing comes and what is there stays.
    fs::create_dir_all(lab.path("from")).unwrap();
    for name in ["a", "b", "c"] {
        fs::write(lab.path("from").join(name), "0123456789").unwrap();
    }
    fs::create_dir_all(lab.path("to")).unwrap();
    fs::write(lab.path("to/a"), "0123").unwrap();
    fs::write(lab.path("to/b"), "0123456789").unwrap();
    local.batch(&["-ra"], "put from/ to/from\nput from/a to\n").ok("tree");
    local.batch(&[], "put -ra from to\n").ok("tree again");
    assert_same_tree(&lab.path("from"), &lab.path("to/from"));
    assert_eq!(fs::read(lab.path("to/a")).unwrap(), b"0123456789");
}

#[test]
fn names_that_would_drive_a_terminal_are_shown_harmlessly() {
    let lab = Lab::new();
    fs::create_dir_all(lab.path("r")).unwrap();
    fs::write(lab.path("r").join("clear\x1b[2Jscreen\nx"), "x").unwrap();
    let ran = Local::new(&lab).run(&[], "ls r\nls -l r\nls -ln r\nget r/c*\nrm r/c*\n");
    assert_eq!(ran.code, 0);
    assert!(!ran.out.contains(&0x1b) && !ran.err.contains('\x1b'), "{}", ran.text());
    assert_eq!(ran.text().matches("clear\\033[2Jscreen\\012x").count(), 6, "{}", ran.text());
}

/// Covers: sftp -D
#[test]
fn files_that_would_become_one_are_copied_one_after_the_other() {
    let lab = Lab::new();
    for (dir, size) in [("a", 2_000_000), ("b", 1_000_000)] {
        fs::create_dir_all(lab.path(dir)).unwrap();
        make_blob(&lab.path(dir).join("x"), size);
    }
    fs::create_dir_all(lab.path("to")).unwrap();
    Local::new(&lab).batch(&[], "get [ab]/x to\n").ok("get");
    assert_same_file(&lab.path("b/x"), &lab.path("to/x"));
}

/// A full disk ends one file, with its name, and the rest goes on.
#[test]
fn a_full_disk_is_named() {
    let lab = Lab::new();
    make_blob(&lab.path("blob"), 100_000);
    let ran = Local::new(&lab).batch(&[], "put blob /dev/full\n");
    assert_eq!(ran.code, 1);
    assert!(ran.err.contains("/dev/full\""), "{}", ran.err);
    let ran = Local::new(&lab).batch(&[], "get blob /dev/full\n");
    assert_eq!(ran.code, 1);
    assert!(ran.err.contains("write local \"/dev/full\": No space left on device"), "{}", ran.err);
}

fn ssh_flags(lab: &Lab, port: u16) -> Vec<String> {
    let mut flags = lab.client_options();
    flags.extend(["-P".into(), port.to_string()]);
    flags
}

fn over_ssh(lab: &Lab, port: u16) {
    let sftp = our("lhsftp");
    prepare(lab);
    make_blob(&lab.path("blob"), 20_000_000);
    let host = format!("{}@127.0.0.1", me());
    let run = |flags: &[&str], place: &[&str], script: &str| {
        lab.write("script", script);
        let mut args: Vec<String> = flags.iter().map(|&flag| flag.to_owned()).collect();
        args.extend(ssh_flags(lab, port));
        args.extend(place.iter().map(|&word| word.to_owned()));
        lab.run_with(&sftp, &args, fs::File::open(lab.path("script")).unwrap().into())
    };
    let (blob, up) = (lab.arg("blob"), lab.arg("up"));
    // Several copies and questions over one channel.
    let script = format!("put {blob} {up}\nls -l {up}\nget {up} down\nrm {up}\ndf\n");
    let ran = run(&[], &[&host], &script).ok("a session");
    assert!(ran.err.starts_with("Connected to 127.0.0.1."), "{}", ran.err);
    assert!(ran.text().contains(&format!("Fetching {up} to down")), "{}", ran.text());
    assert_same_file(&lab.path("blob"), &lab.path("down"));
    assert!(!lab.path("up").exists());

    run(&["-b", "script"], &[&host], "pwd\n").ok("a batch");
    assert_eq!(run(&["-b", "script"], &[&host], "ls /nope\n").code, 1);

    let file = format!("{host}:{}", lab.arg("r/f 2"));
    run(&[], &[&file], "").ok("one file, to here");
    assert_same_file(&lab.path("r/f 2"), &lab.path("f 2"));
    run(&[], &[&file, "named"], "").ok("one file, to a name");
    assert_same_file(&lab.path("r/f 2"), &lab.path("named"));
    assert_eq!(run(&[], &[&format!("{host}:/nope")], "").code, 1);

    let dir = format!("{host}:{}/", lab.arg("r/d"));
    let ran = run(&[], &[&dir], "pwd\nls -1\n").ok("a folder");
    assert!(ran.text().contains(&format!("Remote working directory: {}", lab.arg("r/d"))), "{}", ran.text());
    let uri = format!("sftp://{host}:{port}/{}", lab.arg("r/d").replace(' ', "%20"));
    assert!(run(&[], &[&uri], "ls -1\n").ok("a URI").text().contains("sub"));

    // A command and a subsystem of another name.
    let server = our("lhsftp-server").to_string_lossy().into_owned();
    assert!(run(&["-s", &server], &[&host], "pwd\n").ok("-s").text().contains("Remote working"));
    let ran = run(&["-s", "no-such-subsystem"], &[&host], "pwd\n");
    assert_eq!(ran.code, 255);
    assert!(ran.err.contains("subsystem request failed on channel 0"), "{}", ran.err);
    assert!(ran.err.trim_end().ends_with("Connection closed"), "{}", ran.err);
    let ran = run(&["-s", "/bin/false/"], &[&host], "pwd\n");
    assert_eq!((ran.code, ran.err.trim_end().ends_with("Connection closed")), (255, true), "{}", ran.err);
}

/// Covers: sftp -s; sftp -P; sftp -F; sftp -o
#[test]
fn openssh_s_server_serves_it() {
    let Some([sshd]) = peers("openssh_s_server_serves_it", ["sshd"]) else { return };
    let lab = Lab::new();
    over_ssh(&lab, Inetd::openssh(&lab, &sshd, "").port);
}

#[test]
fn our_server_serves_it() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "");
    over_ssh(&lab, server.port);
}

/// Covers: sftp -S; sftp -4; sftp -C; sftp -c; sftp -i; sftp -v; sftp -J
#[test]
fn other_ways_lead_to_a_server_too() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "");
    let place = format!("{}@127.0.0.1", me());
    lab.write("script", "pwd\n");
    let run = |flags: &[&str], place: &str| {
        let mut args = ssh_flags(&lab, server.port);
        args.extend(flags.iter().map(|&flag| flag.to_owned()));
        args.push(place.to_owned());
        lab.run_with(&our("lhsftp"), &args, fs::File::open(lab.path("script")).unwrap().into())
    };
    let lhssh = our("lhssh").to_string_lossy().into_owned();
    let ran = run(&["-S", &lhssh], &place).ok("-S lhssh");
    assert!(ran.text().contains("Remote working directory: /"), "{}", ran.text());
    if let Some([ssh]) = peers("other_ways_lead_to_a_server_too", ["ssh"]) {
        run(&["-S", &ssh.to_string_lossy(), "-C"], &place).ok("-S ssh");
    }
    run(&["-4C", "-c", "aes256-ctr", "-i", &lab.arg("user_rsa")], &place).ok("flags of the connection");
    assert!(run(&["-v"], &place).err.contains("debug1: "));
    let key = lab.arg("user_ed25519");
    lab.write(
        "config",
        &format!(
            "Host *\nUserKnownHostsFile {}\nIdentityFile {key}\nIdentitiesOnly yes\nStrictHostKeyChecking yes\n",
            lab.arg("known_hosts")
        ),
    );
    let hop = format!("{place}:{}", server.port);
    let port = server.port.to_string();
    let args = ["-F", &lab.arg("config"), "-J", &hop, "-P", &port, &place].map(str::to_owned);
    let ran = lab.run_with(&our("lhsftp"), &args, fs::File::open(lab.path("script")).unwrap().into());
    assert!(ran.ok("-J").text().contains("Remote working directory: /"));
}

/// Covers: sftp -A
#[test]
fn the_agent_is_forwarded_when_asked_for() {
    let lab = Lab::new();
    // Whoever listens will do: what counts is whether the other side has a way to it.
    let agent = lab.path("agent");
    let listener = std::os::unix::net::UnixListener::bind(&agent).unwrap();
    std::thread::spawn(move || listener.incoming().for_each(drop));
    let server = Lhsshd::start(&lab, "");
    let command =
        format!("echo \"[$SSH_AUTH_SOCK]\" > {}; exec {}", lab.arg("seen"), our("lhsftp-server").display());
    lab.write("script", "pwd\n");
    for (flags, forwarded) in [(&["-A"][..], true), (&[], false), (&["-o", "ForwardAgent=yes"], true)] {
        let mut args: Vec<String> = flags.iter().map(|&flag| flag.to_owned()).collect();
        args.extend(ssh_flags(&lab, server.port));
        args.extend(["-o".into(), format!("IdentityAgent={}", agent.display())]);
        args.extend(["-s".into(), command.clone(), format!("{}@127.0.0.1", me())]);
        lab.run_with(&our("lhsftp"), &args, fs::File::open(lab.path("script")).unwrap().into()).ok("pwd");
        assert_eq!(lab.read("seen") != "[]\n", forwarded, "{flags:?}: {}", lab.read("seen"));
    }
}

#[test]
fn no_connection_is_status_255() {
    let lab = Lab::new();
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    let ran = lab.run(&our("lhsftp"), &["-F", "none", "-P", &closed, "127.0.0.1"]);
    assert_eq!(ran.code, 255);
    let text = format!("ssh: connect to host 127.0.0.1 port {closed}: Connection refused\nConnection closed");
    assert_eq!(ran.err.replace('\r', "").trim(), text);
    let ran = lab.run(&our("lhsftp"), &["-D", "/bin/false"]);
    assert_eq!((ran.code, ran.err.trim()), (255, "Connection closed"));
    // Lost in the middle of a session.
    lab.write("dies", "#!/bin/sh\nexec timeout 2 \"$@\"\n");
    fs::set_permissions(lab.path("dies"), fs::Permissions::from_mode(0o755)).unwrap();
    let command = format!("{} {}", lab.arg("dies"), our("lhsftp-server").display());
    let ran = lab.sh(&format!("sleep 8 | {} -D '{command}'", our("lhsftp").display()));
    assert_eq!(ran.code, 255, "{}", ran.err);
    assert!(ran.err.contains("Connection closed"), "{}", ran.err);
}

fn at_a_terminal(lab: &Lab, args: &[String]) -> Terminal {
    Terminal::start(&our("lhsftp"), args, lab.dir(), &lab.path("home"))
}

#[test]
fn a_person_types_completes_and_recalls() {
    let lab = Lab::new();
    prepare(&lab);
    let server = our("lhsftp-server").to_string_lossy().into_owned();
    let mut terminal = at_a_terminal(&lab, &["-D".to_owned(), server]);
    terminal.expect("Attached to ");
    terminal.expect("sftp> ");
    terminal.send("lp\t");
    terminal.expect("lpwd ");
    terminal.send("\n");
    terminal.expect("Local working directory: ");
    // A folder of the server, a name with a blank, and the quotes around one.
    terminal.send("cd r\t\n");
    terminal.expect("cd r/");
    terminal.send("get f\\ \t");
    terminal.expect("get f\\ 2 ");
    terminal.send("esc\n");
    terminal.expect(&format!("Fetching {} to esc", lab.arg("r/f 2")));
    terminal.expect("100%");
    terminal.expect("sftp> ");
    terminal.send("ls -1 \"f\t");
    terminal.send("\t\t");
    terminal.expect("f 2");
    terminal.send(" 2\"\n");
    terminal.expect("\r\nf 2\r\n");
    // The second word of get is ours, of put theirs.
    terminal.send("get f1 l/t\t\n");
    terminal.expect("l/t/");
    terminal.expect(&format!("Fetching {} to l/t/f1", lab.arg("r/f1")));
    terminal.expect("sftp> ");
    terminal.send("\u{10}");
    terminal.expect("get f1 l/t/");
    // ^C gives up the line, not the session.
    terminal.send("\u{3}");
    terminal.expect("sftp> ");
    terminal.send("!echo $((6*7))\n");
    terminal.expect("\r\n42\r\n");
    terminal.send("nonsense\n");
    terminal.expect("Invalid command.");
    terminal.expect("sftp> ");
    terminal.send("\u{4}");
    assert_eq!(terminal.wait(), 0);
    assert_same_file(&lab.path("r/f 2"), &lab.path("esc"));
}

/// Interrupts a copy, sees the prompt again, and that what is there is right as far as it goes.
fn interrupt_a_copy(lab: &Lab, args: &[String]) {
    make_blob(&lab.path("large"), 30_000_000);
    let whole = fs::read(lab.path("large")).unwrap();
    for verb in ["get", "put"] {
        let mut terminal = at_a_terminal(lab, args);
        terminal.expect("sftp> ");
        terminal.send(&format!("lcd {0}\ncd {0}\n", lab.dir().display()));
        terminal.expect("sftp> ");
        terminal.expect("sftp> ");
        terminal.send(&format!("{verb} large copy\n"));
        terminal.expect("ETA");
        terminal.send("\u{3}");
        terminal.expect("Interrupt");
        terminal.expect("sftp> ");
        let copy = fs::read(lab.path("copy")).unwrap();
        assert!(copy.len() < whole.len() && whole.starts_with(&copy), "{verb}: {} bytes", copy.len());
        // The session is as it was, and can go on with it.
        terminal.send("pwd\n");
        terminal.expect("Remote working directory: ");
        terminal.expect("sftp> ");
        terminal.send("bye\n");
        assert_eq!(terminal.wait(), 0);
        Local::new(lab).batch(&[], &format!("re{verb} large copy\n")).ok("the rest");
        assert_same_file(&lab.path("large"), &lab.path("copy"));
        fs::remove_file(lab.path("copy")).unwrap();
    }
}

#[test]
fn an_interrupt_ends_the_copy_and_not_the_session() {
    let lab = Lab::new();
    let server = our("lhsftp-server").to_string_lossy().into_owned();
    let slow = ["-l", "16000", "-D", &server].map(str::to_owned);
    interrupt_a_copy(&lab, &slow);
    let server = Lhsshd::start(&lab, "");
    let mut args = ssh_flags(&lab, server.port);
    args.extend(["-l".to_owned(), "16000".to_owned(), format!("{}@127.0.0.1", me())]);
    interrupt_a_copy(&lab, &args);
}

#[test]
fn a_server_that_goes_away_is_noticed_at_the_prompt() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "ClientAliveInterval 1\nClientAliveCountMax 2");
    let mut args = ssh_flags(&lab, server.port);
    args.push(format!("{}@127.0.0.1", me()));
    let mut terminal = at_a_terminal(&lab, &args);
    terminal.expect("sftp> ");
    // Longer than the server waits for somebody who does not answer.
    std::thread::sleep(std::time::Duration::from_secs(4));
    terminal.send("pwd\n");
    terminal.expect("Remote working directory: ");
    terminal.expect("sftp> ");
    // What serves this connection, not the listener.
    let mine = lab.sh(&format!("pgrep -d ' ' -P {}", server.pid())).text();
    lab.sh(&format!("kill -9 {}", mine.trim())).ok("kill");
    terminal.expect("Connection closed");
    assert_eq!(terminal.wait(), 255);
}

/// Covers: wire SFTP server with OpenSSH's client
#[test]
fn openssh_s_sftp_uses_our_programs() {
    let Some([sftp]) = peers("openssh_s_sftp_uses_our_programs", ["sftp"]) else { return };
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "");
    prepare(&lab);
    make_tree(&lab.path("tree"), 200);
    fs::remove_file(lab.path("tree/link to a file")).unwrap();
    lab.write("script", "put -rp tree up\nget -rp up down\nls -l up\ndf\nreget up/empty e\n");
    let direct = our("lhsftp-server").to_string_lossy().into_owned();
    lab.run(&sftp, &["-b", "script", "-D", &direct]).ok("sftp -D lhsftp-server");
    assert_same_tree(&lab.path("tree"), &lab.path("down"));
    lab.sh("rm -rf up down e").ok("rm");
    let lhssh = our("lhssh").to_string_lossy().into_owned();
    let home = lab.dir().display();
    lab.write("script", &format!("cd {home}\nput -rp tree up\nget -rp up down\n"));
    let mut args = ssh_flags(&lab, server.port);
    args.extend(["-S", &lhssh, "-b", "script"].map(str::to_owned));
    args.push(format!("{}@127.0.0.1", me()));
    lab.run(&sftp, &args).ok("sftp -S lhssh");
    assert_same_tree(&lab.path("tree"), &lab.path("down"));
}

/// What somebody has in a folder of ten thousand files is listed without a question per file.
#[test]
fn a_large_folder_is_listed_with_few_requests() {
    let lab = Lab::new();
    fs::create_dir_all(lab.path("many")).unwrap();
    for number in 0..3000 {
        fs::write(lab.path("many").join(format!("{number:05}.txt")), "").unwrap();
    }
    let server = format!("{} -e -l DEBUG", our("lhsftp-server").display());
    let local = Local { server, ..Local::new(&lab) };
    let ran = local.run(&[], "cd many\nls -1 *9.txt\n");
    assert_eq!(ran.text().lines().filter(|line| line.ends_with("9.txt")).count(), 300 + 1);
    let asked =
        |what: &str| ran.err.lines().filter(|line| line.trim_end().ends_with(&format!(": {what}"))).count();
    assert_eq!(asked("lstat"), 0, "{}", ran.err);
    assert!(asked("stat") <= 1 && asked("readdir") < 30, "{}", ran.err);
}
