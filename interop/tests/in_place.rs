//! Servers that refuse renames, temporary names or checksums, and directories that accept files but cannot be
//! listed: files are written in place.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

use lh_interop::{
    Lab, Lhsshd, Ran, TestUser, assert_same_file, is_root, make_blob, me, our, peers, sftp_servers, skip,
};

/// The server's configuration, and whether it permits renames.
const RULES: [(&str, bool); 6] = [
    ("-p open,close,write,realpath,stat,lstat", false),
    ("-P rename,posix-rename", false),
    ("-P rename,posix-rename,remove,fsetstat,setstat,fstat", false),
    ("-P posix-rename", true),
    ("-P lstat", true),
    ("-P fsetstat,setstat,limits,fsync", true),
];

/// Copies `from` to `to` with `lhscp` or `lhsftp`, with messages about its decisions.
fn upload(lab: &Lab, port: u16, program: &str, user: &str, from: &str, to: &str) -> Ran {
    let mut args = lab.client_options();
    args.extend(["-P".to_owned(), port.to_string(), "-v".to_owned()]);
    if program == "lhscp" {
        args.extend([from.to_owned(), format!("{user}@127.0.0.1:{to}")]);
    } else {
        lab.write("batch", &format!("put {from} {to}\n"));
        args.extend(["-b".to_owned(), "batch".to_owned(), format!("{user}@127.0.0.1")]);
    }
    lab.run(&our(program), &args)
}

/// Covers: sftp-server -p; sftp-server -P; sshd_config Subsystem
#[test]
fn a_server_that_refuses_some_requests_still_gets_its_files() {
    let lab = Lab::new();
    make_blob(&lab.path("big"), 3_000_001);
    lab.write("small", "a few words\n");
    for server_program in sftp_servers("requests that are refused") {
        for (rule, may_rename) in RULES {
            let config = format!("Subsystem sftp {} {rule}\n", server_program.display());
            let server = Lhsshd::start(&lab, &config);
            for (program, file) in
                [("lhscp", "big"), ("lhscp", "small"), ("lhsftp", "big"), ("lhsftp", "small")]
            {
                let what = format!("{program} {file} to {} {rule}", server_program.display());
                lab.sh("rm -rf to; mkdir to").ok("a directory");
                let copy = lab.arg("to/copy");
                // First as a new file, then over the existing one.
                for _ in 0..2 {
                    let ran = upload(&lab, server.port, program, &me(), file, &copy).ok(&what);
                    assert_same_file(&lab.path(file), &lab.path("to/copy"));
                    assert_eq!(lab.sh("ls -A to").text(), "copy\n", "{what}");
                    let said = ran.err.contains("permits no rename");
                    assert_eq!(said, !may_rename, "{what}: {}", ran.err);
                }
            }
        }
    }
}

/// Covers: sftp-server -P
#[test]
fn in_place_message_needs_verbose() {
    let lab = Lab::new();
    lab.write("small", "a few words\n");
    let command = format!("{} -P rename,posix-rename", our("lhsftp-server").display());
    lab.write("batch", "put small copy\n");
    let ran = lab.run(&our("lhsftp"), &["-b", "batch", "-D", &command]).ok("put");
    assert_eq!(ran.err, "");
    assert_eq!(lab.read("copy"), "a few words\n");
}

/// Covers: wire SSH_FXP_OPEN
#[test]
fn uploads_into_a_directory_that_cannot_be_listed() {
    if !is_root() {
        return skip("a drop box", "only root can make another user's directory");
    }
    let Some([_]) = peers("a drop box", ["su"]) else { return };
    let lab = Lab::new();
    make_blob(&lab.path("big"), 3_000_001);
    lab.write("small", "a few words\n");
    let user = TestUser::new(&lab);
    let server = Lhsshd::start(&lab, "AuthorizedKeysFile .ssh/authorized_keys");
    fs::create_dir(lab.path("box")).unwrap();
    // Files can be created, but not listed; with the sticky bit other users' files cannot be replaced.
    for mode in [0o733, 0o1733] {
        fs::set_permissions(lab.path("box"), fs::Permissions::from_mode(mode)).unwrap();
        for (program, file) in [("lhscp", "big"), ("lhscp", "small"), ("lhsftp", "big"), ("lhsftp", "small")]
        {
            let copy = lab.path(&format!("box/{program}-{file}-{mode:o}"));
            let to = copy.display().to_string();
            for _ in 0..2 {
                upload(&lab, server.port, program, &user.name, file, &to)
                    .ok(&format!("{program} {file} {mode:o}"));
                assert_same_file(&lab.path(file), &copy);
            }
            // A file of root's that all may write is overwritten, and stays root's.
            let roots = lab.path("box/of-root");
            fs::write(&roots, "old").unwrap();
            fs::set_permissions(&roots, fs::Permissions::from_mode(0o666)).unwrap();
            let to = roots.display().to_string();
            upload(&lab, server.port, program, &user.name, file, &to).ok("over another user's file");
            assert_same_file(&lab.path(file), &roots);
            assert_eq!(fs::metadata(&roots).unwrap().uid(), 0);
        }
        let left = lab.sh("ls -A box | grep lhpart").text();
        assert_eq!(left, "");
    }
}

/// Covers: sftp-server -l
#[test]
fn the_log_of_our_server_tells_of_files_and_of_nothing_else() {
    let lab = Lab::new();
    lab.write("small", "a few words\n");
    let server = Lhsshd::start(&lab, "Subsystem sftp internal-sftp -l INFO\n");
    for program in ["lhscp", "lhsftp"] {
        upload(&lab, server.port, program, &me(), "small", &lab.arg("copy")).ok(program);
        assert_same_file(&lab.path("small"), &lab.path("copy"));
    }
    let log = server.log();
    assert!(log.contains(&lab.arg("copy")), "{log}");
    assert!(!log.contains(".nothing"), "{log}");
}
