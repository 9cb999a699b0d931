//! Output and effects of the commands of `lhsftp`.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use lh_interop::{Lab, Ran, assert_same_file, assert_same_tree, make_blob, make_tree, our, peers, skip};

use super::{Local, prepare};

/// Returns the lines of both outputs, without the carriage returns of OpenSSH's messages.
fn said(ran: &Ran) -> (Vec<String>, Vec<String>) {
    let lines = |text: &str| text.lines().map(|line| line.trim_end_matches('\r').to_owned()).collect();
    (lines(&ran.text()), lines(&ran.err))
}

/// The script whose files and output must be equal for both programs.
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
fn sftp_session_matches_openssh_output_and_effects() {
    let Some([sftp]) = peers("sftp_session_matches_openssh_output_and_effects", ["sftp"]) else { return };
    let lab = Lab::new();
    let mut seen = Vec::new();
    // Our server's messages for some failures are longer than OpenSSH's, which both programs use here.
    let server = "/usr/lib/openssh/sftp-server";
    if !std::path::Path::new(server).exists() {
        return skip("sftp_session_matches_openssh_output_and_effects", "no sftp-server of OpenSSH");
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
            // Column widths may differ, and so may a slash after a directory of the command line.
            let plain = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ").replace("/ ", " ");
            let plain =
                |line: &str| plain(line).trim_end_matches('/').replace("/\"", "\"").replace("/:", ":");
            assert_eq!(plain(theirs), plain(ours));
        }
        assert_eq!(theirs.len(), ours.len(), "{theirs:#?}\n{ours:#?}");
    }
    assert_eq!(theirs.1, ours.1);
}

/// Commands in odd forms, of which both programs say the same, to the letter.
const ODD_FORMS: &str = r#"cd r
-ls -1 {f,s}*
-ls -1f {st,f1}*
-ls -1 {f1,st\*r}
-ls -1 {d,f1}
-ls -1 {d,e}
-ls -1 {f{1,\ 2},st*}
-ls -1 "{f1,d}"
-ls -1 \{f1,d\}
-ls -1 f{1
-ls -1 d/{x
-ls -1 {}
-ls -1 {nope}
-ls -1 {nope,none*}
-get {f1,lnk}
-rm {f1,lnk}
-chmod 600 {f1,lnk}
-cd {d,x}
lcd l
-put {u1,t}
-put {u1,t}*
-ls -1 *
-ls -l *
-ls -1 d/*
-ls -1S f*
-ls -1 */
-ls -1 f*/
-ls -1 f1/
-ls -1 lnk/
-ls -1 [[:alpha:]]1
-ls -1 [![:alpha:]]1
-rm -f f1
-rm -- dang
-rmdir -p d
-cd -x
-lcd -x
-pwd -x
-cp -r f1 z
-rename -x f1 z
-rename -- f1 z
-symlink -s z y
-ln -ss z y
-ln -x z y
-version -x
-progress -x
-mkdir -- n
-get z ""
-get -r d
-get -rp d dp
-put -r t
-put -r t tt
lumask 1777
-lumask 77777777777
-lumask 0x12
-lumask -1
lumask 022
-@rm nope
@-rm nope
 - @ pwd
--pwd
-bye -x
@lpwd
"#;

/// Covers: sftp -b; patterns with braces; commands without flags
#[test]
fn odd_forms_match_openssh() {
    let Some([sftp]) = peers("odd_forms_match_openssh", ["sftp"]) else { return };
    let server = "/usr/lib/openssh/sftp-server";
    if !std::path::Path::new(server).exists() {
        return skip("odd_forms_match_openssh", "no sftp-server of OpenSSH");
    }
    let lab = Lab::new();
    let mut seen = Vec::new();
    for program in [sftp, our("lhsftp")] {
        prepare(&lab);
        fs::create_dir(lab.path("r/e")).unwrap();
        let local = Local { program, server: server.to_owned(), ..Local::new(&lab) };
        let ran = local.batch(&[], ODD_FORMS);
        let left = lab.sh("find r l -printf '%p %y %m %s %l\\n' | sort").ok("find").text();
        seen.push((ran.code, said(&ran), left));
    }
    let (theirs, ours) = (&seen[0], &seen[1]);
    assert_eq!(theirs.0, 0, "{:#?}", theirs.1);
    for (theirs, ours) in theirs.1.0.iter().zip(&ours.1.0) {
        assert_eq!(theirs, ours);
    }
    for (theirs, ours) in theirs.1.1.iter().zip(&ours.1.1) {
        assert_eq!(theirs, ours);
    }
    assert_eq!(theirs, ours);
}

/// OpenSSH's `sftp` crashes where one alternative matches and another one does not.
#[test]
fn alternatives_that_match_nothing_are_left_out() {
    let lab = Lab::new();
    prepare(&lab);
    let ran = Local::new(&lab).batch(&[], "cd r\nls -1 {nope,f*}\nls -1 {d,nope}\n");
    assert_eq!(ran.code, 0, "{}", ran.err);
    let text = ran.text();
    assert!(text.contains("{nope,f*}\nf 2\nf1\n"), "{text}");
    assert!(text.ends_with("{d,nope}\nd/lx\nd/sub\nd/x\n"), "{text}");
}

/// A copy to a name that is none leaves nothing.
#[test]
fn get_to_an_empty_name_leaves_nothing() {
    let lab = Lab::new();
    prepare(&lab);
    let ran = Local::new(&lab).batch(&[], "lcd l\nget r/f1 \"\"\n");
    assert_eq!((ran.code, ran.err.trim()), (1, "open local \"\": No such file or directory"));
    assert_eq!(fs::read_dir(lab.path("l")).unwrap().count(), 3);
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
    // `-b -` reads standard input, which holds the script.
    assert_eq!(local.run(&["-b", "-"], "ls nope\n").code, 1);
    let ran = lab.run(&our("lhsftp"), &["-b", "no such file", "-D", &local.server]);
    assert_eq!((ran.code, ran.err.trim()), (255, "No such file or directory (no such file)."));
}

#[test]
fn mkdir_makes_parents_when_asked_to() {
    let lab = Lab::new();
    let local = Local::new(&lab);
    let ran =
        local.batch(&[], "mkdir -p a//b/c/\nmkdir -p a/b/c\nlmkdir -p l/m/n\nlmkdir -p l/m\nmkdir a/d\n");
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(lab.path("a/b/c").is_dir() && lab.path("a/d").is_dir() && lab.path("l/m/n").is_dir());
    lab.write("a/file", "");
    for failing in ["mkdir -p a/file/x", "mkdir -p a/file", "lmkdir -p a/file", "mkdir no/such", "mkdir -q a"]
    {
        let ran = local.batch(&[], &format!("{failing}\n"));
        assert_eq!(ran.code, 1, "{failing}: {}", ran.err);
    }
}

/// Covers: sftp -r; sftp -p; sftp -f; sftp -B; sftp -R; sftp -X; sftp -l
#[test]
fn sftp_flags_select_preserved_attributes() {
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
    // 400 KB at 8000 Kbit/s (1 MB/s) takes time; a lower bound does not depend on the machine.
    make_blob(&lab.path("blob"), 400_000);
    let begun = std::time::Instant::now();
    local.batch(&["-l", "8000"], "put blob slow\n").ok("slowly");
    assert!(begun.elapsed().as_millis() >= 200, "{:?}", begun.elapsed());
    assert_same_file(&lab.path("blob"), &lab.path("slow"));
}

/// Covers: sftp -a
#[test]
fn only_an_interrupted_copy_is_resumed() {
    let lab = Lab::new();
    make_blob(&lab.path("whole"), 3_000_001);
    let whole = fs::read(lab.path("whole")).unwrap();
    let local = Local::new(&lab);
    for (command, flags) in [("reget", &[][..]), ("reput", &[]), ("get -a", &[]), ("put", &["-a"])] {
        let mut part = whole[..1_000_000].to_vec();
        fs::write(lab.path("part"), &part).unwrap();
        let ran = local.batch(flags, &format!("{command} whole part\n")).ok(command);
        assert_eq!(ran.err, "", "{command}");
        assert_same_file(&lab.path("whole"), &lab.path("part"));
        // What is there is compared before the copy goes on behind it: this is no beginning of the source.
        part[0] ^= 0xff;
        fs::write(lab.path("part"), &part).unwrap();
        let ran = local.batch(flags, &format!("{command} whole part\n")).ok(command);
        assert!(ran.err.contains("does not begin as its source does"), "{command}: {}", ran.err);
        assert_same_file(&lab.path("whole"), &lab.path("part"));
        // A missing file is copied whole.
        fs::remove_file(lab.path("part")).unwrap();
        local.batch(flags, &format!("{command} whole part\n")).ok(command);
        assert_same_file(&lab.path("whole"), &lab.path("part"));
        // A longer file is refused and left unchanged.
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
    // In a tree, missing files are copied and existing ones stay.
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
fn control_characters_in_listings_are_escaped() {
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
fn sources_with_one_target_are_copied_in_order() {
    let lab = Lab::new();
    for (dir, size) in [("a", 2_000_000), ("b", 1_000_000)] {
        fs::create_dir_all(lab.path(dir)).unwrap();
        make_blob(&lab.path(dir).join("x"), size);
    }
    fs::create_dir_all(lab.path("to")).unwrap();
    Local::new(&lab).batch(&[], "get [ab]/x to\n").ok("get");
    assert_same_file(&lab.path("b/x"), &lab.path("to/x"));
}

/// A full disk fails one file, named in the message; the others continue.
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

/// A directory of ten thousand files is listed without a request per file.
#[test]
fn a_large_directory_is_listed_with_few_requests() {
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
