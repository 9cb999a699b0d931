//! The old copy protocol: `lhscp -O` with other remote sides, and `lhscp -t`/`-f` with other clients.

use std::collections::BTreeMap;
use std::hash::{Hash as _, Hasher as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use lh_interop::{
    Inetd, Lab, Lhsshd, Terminal, TestUser, assert_same_file, is_root, make_blob, me, our, peers, skip,
};

/// Returns configuration lines that make a server's users find `lhscp` under the name `scp`.
fn path_to_ours(lab: &Lab) -> String {
    let names = lab.path("names");
    std::fs::create_dir_all(&names).unwrap();
    let _ = symlink(our("lhscp"), names.join("scp"));
    format!("SetEnv PATH={}:/usr/bin:/bin\nRekeyLimit 16M\n", names.display())
}

/// Makes a tree with spaces, foreign letters, dashes, quotes, links, empty files and directories, modes and
/// times.
fn difficult_tree(lab: &Lab, name: &str) {
    let lines = r#"
        mkdir -p "$T/a b/ü/empty dir" && cd "$T"
        printf 'hello' > 'a b/plain' && printf '' > empty && printf x > ./-rf && printf y > "it's \$HOME *"
        printf z > 'a b/ü/日本語' && head -c 300000 /dev/urandom > noise && ln -s plain 'a b/link'
        chmod 751 'a b/plain' && chmod 400 noise && chmod 700 'a b' && chmod 775 'a b/ü'
        touch -d '2001-02-03 04:05:06 UTC' 'a b/plain' noise 'a b/ü/empty dir' 'a b/ü' 'a b'
    "#;
    lab.sh(&format!("T='{}'\nset -e\n{lines}", lab.arg(name))).ok("tree");
}

/// Relative path → mode, modification time, length and hash of the content; links are followed.
fn listing(root: &Path) -> BTreeMap<PathBuf, (String, i64, usize, u64)> {
    let mut found = BTreeMap::new();
    let mut open = vec![root.to_path_buf()];
    while let Some(path) = open.pop() {
        let meta = std::fs::metadata(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let mut data = Vec::new();
        if meta.is_dir() {
            open.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else {
            data = std::fs::read(&path).unwrap();
        }
        let inner = path.strip_prefix(root).unwrap().to_path_buf();
        let mut hasher = std::hash::DefaultHasher::new();
        data.hash(&mut hasher);
        let mode = format!("{:o}", meta.permissions().mode());
        found.insert(inner, (mode, meta.mtime(), data.len(), hasher.finish()));
    }
    found
}

/// Runs a client's program with the lab's options.
fn scp(lab: &Lab, program: &Path, port: u16, flags: &[&str], paths: &[&str]) -> lh_interop::Ran {
    let mut args: Vec<String> = flags.iter().map(|&each| each.to_owned()).collect();
    args.extend(lab.client_options());
    args.extend(["-P".into(), port.to_string()]);
    args.extend(paths.iter().map(|&each| each.to_owned()));
    lab.run(program, &args)
}

fn remote(lab: &Lab, name: &str) -> String {
    format!("{}@127.0.0.1:{}", me(), lab.arg(name))
}

/// Copies a file and a tree both ways, and checks the messages of failures.
fn exercise(lab: &Lab, program: &Path, port: u16) {
    make_blob(&lab.path("blob"), 40 << 20);
    difficult_tree(lab, "tree");
    let run = |flags: &[&str], paths: &[&str]| scp(lab, program, port, &[&["-O"], flags].concat(), paths);
    run(&[], &[&lab.arg("blob"), &remote(lab, "up")]).ok("blob up");
    assert_same_file(&lab.path("blob"), &lab.path("up"));
    run(&["-C"], &[&remote(lab, "up"), &lab.arg("down")]).ok("blob down");
    assert_same_file(&lab.path("blob"), &lab.path("down"));
    run(&["-rp"], &[&lab.arg("tree"), &remote(lab, "tree.up")]).ok("tree up");
    assert_eq!(listing(&lab.path("tree")), listing(&lab.path("tree.up")));
    run(&["-r", "-p"], &[&remote(lab, "tree.up"), &lab.arg("tree.down")]).ok("tree down");
    assert_eq!(listing(&lab.path("tree")), listing(&lab.path("tree.down")));
    // Several sources, a pattern that the remote shell expands, braces, a name with a space.
    std::fs::create_dir_all(lab.path("many")).unwrap();
    run(&[], &[&lab.arg("tree/empty"), &lab.arg("tree/-rf"), &remote(lab, "many")]).ok("two up");
    std::fs::remove_file(lab.path("many/empty")).unwrap();
    let found = format!("{}/{{emp*,nois?}}", remote(lab, "tree.up"));
    run(&[], &[&found, &remote(lab, "tree.up/a\\ b/plain"), &lab.arg("many")]).ok("patterns down");
    assert_same_file(&lab.path("tree/noise"), &lab.path("many/noise"));
    assert!(lab.path("many/empty").exists() && lab.path("many/plain").exists());
    // The protocol's lines cannot contain a newline.
    lab.sh("mkdir -p lines && printf n > $'lines/a\\nb'").ok("newline");
    run(&["-r"], &[&lab.arg("lines"), &remote(lab, "lines.up")]).ok("newline up");
    assert_eq!(std::fs::read(lab.path("lines.up/a\\^Jb")).unwrap(), b"n");
    // Failures: exit status 1, and the other files are copied.
    let ran = run(&[], &[&lab.arg("missing"), &lab.arg("tree/-rf"), &remote(lab, "many")]);
    assert_eq!(ran.code, 1);
    assert!(ran.err.contains("missing: No such file or directory"), "{}", ran.err);
    let ran = run(&[], &[&remote(lab, "missing"), &lab.arg("x")]);
    assert_eq!(ran.code, 1);
    assert!(
        ran.err.contains("scp: ") && ran.err.contains("missing: No such file or directory"),
        "{}",
        ran.err
    );
    let ran = run(&[], &[&lab.arg("blob"), &lab.arg("up"), &remote(lab, "blob")]);
    assert_eq!(ran.code, 1);
    assert!(ran.err.contains("Not a directory"), "{}", ran.err);
    let ran = run(&[], &[&remote(lab, "tree"), &lab.arg("x")]);
    assert_eq!((ran.code, ran.err.contains("not a regular file")), (1, true), "{}", ran.err);
}

/// Covers: scp -O; scp -t; scp -f; scp -r; scp -p; scp -d
#[test]
fn our_scp_with_our_remote_side() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, &path_to_ours(&lab));
    exercise(&lab, &our("lhscp"), server.port);
}

/// Covers: scp -t; scp -f
#[test]
fn openssh_s_scp_with_our_remote_side() {
    let Some([theirs]) = peers("openssh_scp_legacy", ["scp"]) else { return };
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, &path_to_ours(&lab));
    exercise(&lab, &theirs, server.port);
}

/// Covers: scp -O
#[test]
fn our_scp_with_openssh_s_remote_side() {
    let Some([sshd, _]) = peers("openssh_sshd_legacy", ["sshd", "scp"]) else { return };
    let lab = Lab::new();
    let server = Inetd::openssh(&lab, &sshd, "RekeyLimit 16M");
    exercise(&lab, &our("lhscp"), server.port);
}

/// Covers: scp -O
#[test]
fn our_scp_with_dropbear() {
    let Some([dropbear, convert, _]) = peers("dropbear_legacy", ["dropbear", "dropbearconvert", "scp"])
    else {
        return;
    };
    if !is_root() {
        return skip(
            "dropbear_legacy",
            "needs root: dropbear reads authorized_keys from the home of the user",
        );
    }
    let lab = Lab::new();
    let user = TestUser::new(&lab);
    let server = Inetd::dropbear(&lab, &dropbear, &convert, &[]);
    make_blob(&lab.path("blob"), 8 << 20);
    difficult_tree(&lab, "tree");
    let there = |name: &str| format!("{}@127.0.0.1:{name}", user.name);
    let run = |flags: &[&str], paths: &[&str]| {
        scp(&lab, &our("lhscp"), server.port, &[&["-O"], flags].concat(), paths).ok("dropbear")
    };
    run(&[], &[&lab.arg("blob"), &there("")]);
    run(&["-p"], &[&there("blob"), &lab.arg("down")]);
    assert_same_file(&lab.path("blob"), &lab.path("down"));
    run(&["-rp"], &[&lab.arg("tree"), &there("copied")]);
    run(&["-rp"], &[&there("copied"), &lab.arg("tree.down")]);
    assert_eq!(listing(&lab.path("tree")), listing(&lab.path("tree.down")));
}

/// Covers: scp -t; scp -f
#[test]
fn putty_s_pscp_with_our_remote_side() {
    let Some([pscp, puttygen]) = peers("pscp_legacy", ["pscp", "puttygen"]) else { return };
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, &path_to_ours(&lab));
    make_blob(&lab.path("blob"), 8 << 20);
    difficult_tree(&lab, "tree");
    lab.run(&puttygen, &[lab.arg("user_ed25519"), "-o".into(), lab.arg("user.ppk")]).ok("puttygen");
    let print = lab.sh("ssh-keygen -lf host_ed25519.pub | cut -d' ' -f2").ok("fingerprint").text();
    let run = |flags: &[&str], paths: &[String]| {
        let mut args: Vec<String> = ["-scp", "-batch", "-hostkey"].map(str::to_owned).to_vec();
        args.extend([
            print.trim().to_owned(),
            "-i".into(),
            lab.arg("user.ppk"),
            "-P".into(),
            server.port_arg(),
        ]);
        args.extend(flags.iter().map(|&each| each.to_owned()));
        args.extend(paths.iter().cloned());
        lab.run(&pscp, &args)
    };
    run(&[], &[lab.arg("blob"), remote(&lab, "up")]).ok("up");
    assert_same_file(&lab.path("blob"), &lab.path("up"));
    run(&["-p"], &[remote(&lab, "up"), lab.arg("down")]).ok("down");
    assert_same_file(&lab.path("blob"), &lab.path("down"));
    run(&["-r"], &[lab.arg("tree"), remote(&lab, "tree.up")]).ok("tree up");
    assert_same_file(&lab.path("tree/a b/plain"), &lab.path("tree.up/a b/plain"));
    assert!(lab.path("tree.up/a b/ü/empty dir").is_dir());
}

/// Covers: scp -3; scp -O; scp -R
#[test]
fn old_protocol_copies_between_two_hosts() {
    let lab = Lab::new();
    let config = path_to_ours(&lab);
    let (first, second) = (Lhsshd::start(&lab, &config), Lhsshd::start(&lab, &config));
    make_blob(&lab.path("blob"), 24 << 20);
    difficult_tree(&lab, "tree");
    let at =
        |server: &Lhsshd, name: &str| format!("scp://{}@127.0.0.1:{}/{}", me(), server.port, lab.arg(name));
    for (number, flags) in [&["-3"][..], &[], &["-O", "-3"], &["-O"]].into_iter().enumerate() {
        let (blob, tree) = (format!("blob{number}"), format!("tree{number}"));
        scp(&lab, &our("lhscp"), 1, flags, &[&at(&first, "blob"), &at(&second, &blob)]).ok("relay a file");
        assert_same_file(&lab.path("blob"), &lab.path(&blob));
        let flags = [flags, &["-rp"]].concat();
        scp(&lab, &our("lhscp"), 1, &flags, &[&at(&first, "tree"), &at(&second, &tree)]).ok("relay a tree");
        assert_eq!(listing(&lab.path("tree")), listing(&lab.path(&tree)), "{flags:?}");
        let ran = scp(&lab, &our("lhscp"), 1, &flags, &[&at(&first, "missing"), &at(&second, "x")]);
        assert_eq!(ran.code, 1, "{flags:?}: {}", ran.err);
        assert!(ran.err.contains("missing: No such file or directory"), "{flags:?}: {}", ran.err);
    }

    // Directly: the first host's scp reaches the second by its own configuration.
    let options = lab.client_options().iter().skip(2).map(|word| word.replace("-o", "")).collect::<Vec<_>>();
    let mut text = format!("Host second\n  HostName 127.0.0.1\n  Port {}\n  User {}\n", second.port, me());
    for option in options.iter().filter(|option| !option.is_empty()) {
        text.push_str(&format!("  {}\n", option.replacen('=', " ", 1)));
    }
    lab.write("remote.conf", &text);
    let script = format!("#!/bin/sh\nexec {} -F {} \"$@\"\n", our("lhscp").display(), lab.arg("remote.conf"));
    std::fs::remove_file(lab.path("names/scp")).unwrap();
    lab.write("names/scp", &script);
    std::fs::set_permissions(lab.path("names/scp"), std::fs::Permissions::from_mode(0o755)).unwrap();
    let target = format!("second:{}", lab.arg("direct"));
    scp(&lab, &our("lhscp"), 1, &["-R"], &[&at(&first, "blob"), &target]).ok("direct");
    assert_same_file(&lab.path("blob"), &lab.path("direct"));
    let ran = scp(&lab, &our("lhscp"), 1, &["-R"], &[&at(&first, "missing"), &target]);
    assert_eq!(ran.code, 1, "{}", ran.err);
    let ran = scp(&lab, &our("lhscp"), 1, &["-R"], &[&at(&first, "blob"), &at(&second, "x")]);
    assert!(ran.code == 1 && ran.err.contains("target port not supported"), "{}", ran.err);
}

/// Covers: scp -S; scp -D; scp -T; scp -s; scp -M; scp -X; scp -l
#[test]
fn scp_runs_over_a_program_given_by_flags() {
    let lab = Lab::new();
    make_blob(&lab.path("blob"), 12 << 20);
    difficult_tree(&lab, "tree");
    let lhscp = our("lhscp");
    let run = |args: &[&str]| lab.run(&lhscp, args);
    if let Some(server) = ["/usr/lib/openssh/sftp-server", "/usr/libexec/sftp-server"]
        .into_iter()
        .find(|path| Path::new(path).exists())
    {
        let (blob, up) = (lab.arg("blob"), format!("host:{}", lab.arg("up")));
        run(&["-D", server, "-l", "400000", &blob, &up]).ok("-D up");
        assert_same_file(&lab.path("blob"), &lab.path("up"));
        run(&["-D", server, "-X", "buffer=16K", "-X", "nrequests=4", &up, &lab.arg("down")]).ok("-D down");
        assert_same_file(&lab.path("blob"), &lab.path("down"));
        let (tree, copy) = (format!("a:{}", lab.arg("tree")), format!("b:{}", lab.arg("tree.copy")));
        run(&["-rp", "-D", server, &tree, &copy]).ok("-D both");
        assert_eq!(listing(&lab.path("tree")), listing(&lab.path("tree.copy")));
        let ran = run(&["-D", server, "host:/no/such/file", "x"]);
        assert_eq!(ran.code, 1);
        assert!(ran.err.contains("/no/such/file: No such file or directory"), "{}", ran.err);
    } else {
        skip("scp_runs_over_a_program_given_by_flags", "no sftp-server");
    }
    assert_eq!(run(&["-D", "/no/such/program", "h:a", "b"]).code, 255);

    // A program with ssh's arguments: it records them and acts as the remote side.
    let script = |name: &str, body: &str| {
        lab.write(name, &format!("#!/bin/bash\n{body}\n"));
        std::fs::set_permissions(lab.path(name), std::fs::Permissions::from_mode(0o755)).unwrap();
        lab.arg(name)
    };
    let wrapper = script(
        "wrapper",
        &format!("echo \"$*\" > words\nset -- ${{!#}}\nshift\nexec {} \"$@\"", lhscp.display()),
    );
    let target = format!("me@host:{}", lab.arg("wrapped"));
    run(&["-O", "-S", &wrapper, "-P", "7", "-oX=y", "-4", &lab.arg("blob"), &target]).ok("-S");
    assert_same_file(&lab.path("blob"), &lab.path("wrapped"));
    let words = lab.read("words");
    assert!(
        words.contains("-oX=y -4 -p 7 -l me -- host scp -t ")
            || words.contains("-o X=y -4 -p 7 -l me -- host scp -t "),
        "{words}"
    );
    run(&["-M", "scp", "-S", &wrapper, &target, &lab.arg("unwrapped")]).ok("-M scp -S");
    assert_same_file(&lab.path("blob"), &lab.path("unwrapped"));

    // A remote side that sends another file than requested.
    let liar = script("liar", "printf 'C0644 3 .bashrc\\nbad\\0'; head -c 3 > /dev/null");
    std::fs::create_dir_all(lab.path("safe")).unwrap();
    for flags in [&["-O"][..], &["-O", "-r"]] {
        let ran = run(&[flags, &["-S", &liar, "host:file", &lab.arg("safe")]].concat());
        assert_eq!(ran.code, 1, "{}", ran.err);
        assert!(ran.err.contains("protocol error: filename does not match request"), "{}", ran.err);
        assert!(!lab.path("safe/.bashrc").exists());
    }
    run(&["-O", "-T", "-S", &liar, "host:file", &lab.arg("safe")]).ok("-T");
    assert_eq!(lab.read("safe/.bashrc"), "bad");
    // Between two hosts, that name is never passed to the second host.
    let program =
        script("either", &format!("case \"$*\" in *' -f '*) exec {liar};; *) exec {wrapper} \"$@\";; esac"));
    std::fs::create_dir_all(lab.path("other")).unwrap();
    let target = format!("other:{}", lab.arg("other"));
    let ran = run(&["-O", "-3", "-S", &program, "host:file", &target]);
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert!(ran.err.contains("protocol error: filename does not match request"), "{}", ran.err);
    assert!(!lab.path("other/.bashrc").exists());
    run(&["-O", "-3", "-T", "-S", &program, "host:file", &target]).ok("-3 -T");
    assert_eq!(lab.read("other/.bashrc"), "bad");
    let mute = script("mute", "exit 0");
    let ran = run(&["-O", "-S", &mute, &lab.arg("blob"), "host:x"]);
    assert!(ran.code == 1 && ran.err.contains("lost connection"), "{} {}", ran.code, ran.err);
}

/// Covers: lhscp -Z (the remote side of the old protocol)
#[test]
fn hpn_resume_request_is_refused_by_the_old_protocol() {
    let lab = Lab::new();
    let ran = lab.run(&our("lhscp"), &["-Z", "-t", &lab.arg("target")]);
    assert_eq!(ran.code, 1);
    assert!(ran.out.starts_with(b"\x02scp: -Z is not supported in the old protocol"), "{}", ran.text());
    assert!(!lab.path("target").exists());
}

/// Control characters in a remote command's standard error do not reach a terminal.
#[test]
fn remote_stderr_drives_no_terminal() {
    let lab = Lab::new();
    let names = lab.path("names");
    let server = Lhsshd::start(
        &lab,
        &format!("SetEnv PATH={}:/usr/bin:/bin\nSubsystem sftp {}/noisy\n", names.display(), names.display()),
    );
    std::fs::create_dir_all(&names).unwrap();
    for (name, program) in [("scp", our("lhscp")), ("noisy", our("lhsftp-server"))] {
        let text =
            format!("#!/bin/sh\nprintf 'motd \\033]0;own\\007\\n' >&2\nexec {} \"$@\"\n", program.display());
        lab.write(&format!("names/{name}"), &text);
        std::fs::set_permissions(names.join(name), std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    lab.write("file", "data");
    let at = |name: &str| format!("scp://{}@127.0.0.1:{}/{}", me(), server.port, lab.arg(name));
    let down = lab.arg("down");
    // As with sshd, the standard error of a subsystem stays at the server.
    for paths in [["-O", &at("file"), &down], ["-O", &at("file"), &at("relayed")]] {
        let args = [lab.client_options(), paths.map(str::to_owned).to_vec()].concat();
        let terminal = Terminal::start(&our("lhscp"), &args, lab.dir(), lab.dir());
        let shown = terminal.screen_at_end();
        assert!(shown.contains("motd \\033]0;own\\007"), "{shown:?}");
        assert!(!shown.contains("\x1b]0;"), "{shown:?}");
        let ran = lab.run(&our("lhscp"), &args).ok("copy");
        assert!(
            ran.err.contains("motd \x1b]0;own\x07\n"),
            "unchanged where it is no terminal: {:?}",
            ran.err
        );
    }
}
