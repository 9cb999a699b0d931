//! `lhssh-keygen` as scripts use it, without the system's ssh-keygen.

mod common;

use common::{OURS, TestDirectory, known_hosts};

/// Covers: ssh-keygen -t; ssh-keygen -N; ssh-keygen -C; ssh-keygen -f
#[test]
fn new_key_output_matches_ssh_keygen() {
    let directory = TestDirectory::new();
    let out = directory.ours(&["-t", "ed25519", "-N", "", "-f", "key", "-C", "a comment"]);
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines[0], "Generating public/private ed25519 key pair.");
    assert_eq!(lines[1], "Your identification has been saved in key");
    assert_eq!(lines[2], "Your public key has been saved in key.pub");
    assert_eq!(lines[3], "The key fingerprint is:");
    assert!(lines[4].starts_with("SHA256:") && lines[4].ends_with(" a comment"));
    assert_eq!(lines[5], "The key's randomart image is:");
    assert_eq!((lines[6], lines[16], lines.len()), ("+--[ED25519 256]--+", "+----[SHA256]-----+", 17));
    assert_eq!((directory.mode("key"), directory.mode("key.pub")), (0o600, 0o644));
    assert!(directory.text("key.pub").ends_with(" a comment\n"));
    assert_eq!(directory.ours(&["-y", "-f", "key"]), directory.text("key.pub"));
    assert_eq!(directory.names(), ["key", "key.pub"]);
}

/// Flags of older releases that scripts still pass.
///
/// Covers: ssh-keygen -X
#[test]
fn obsolete_flags_are_accepted() {
    let directory = TestDirectory::new();
    directory.ours(&["-q", "-o", "-t", "ed25519", "-N", "", "-f", "key"]);
    directory.ours(&["-p", "-o", "-a", "1", "-N", "secret", "-Z", "aes128-gcm@openssh.com", "-f", "key"]);
    assert!(directory.text("key").starts_with("-----BEGIN OPENSSH PRIVATE KEY-----\n"));
    std::fs::write(directory.path("exported"), directory.ours(&["-e", "-f", "key.pub"])).unwrap();
    let imported = directory.ours(&["-X", "-f", "exported"]);
    assert_eq!(imported, directory.ours(&["-i", "-f", "exported"]));
    assert!(directory.text("key.pub").starts_with(imported.trim_end()));
}

/// Covers: ssh-keygen -f
#[test]
fn existing_key_is_overwritten_only_on_request() {
    let directory = TestDirectory::new();
    assert_eq!(directory.ours(&["-q", "-t", "ecdsa", "-N", "", "-f", "key"]), "");
    let first = directory.text("key");
    for answer in ["n\n", ""] {
        let said = directory.run(OURS, &["-t", "ecdsa", "-N", "", "-f", "key"], answer);
        assert_eq!(said.status, 1);
        assert!(said.out.ends_with("key already exists.\nOverwrite (y/n)? "), "{}", said.out);
        assert_eq!(directory.text("key"), first);
    }
    let said = directory.run(OURS, &["-t", "ecdsa", "-N", "", "-f", "key"], "y\n");
    assert_eq!(said.status, 0);
    assert_ne!(directory.text("key"), first);
}

#[test]
fn default_file_is_proposed() {
    let directory = TestDirectory::new();
    // The proposal comes from the password database, not from HOME; the answer overrides it.
    let said = directory.run(OURS, &["-N", "", "-t", "ed25519"], "given\n");
    assert_eq!(said.status, 0, "{}", said.err);
    assert!(said.out.contains("Enter file in which to save the key ("), "{}", said.out);
    assert!(said.out.contains("/.ssh/id_ed25519): "), "{}", said.out);
    assert!(directory.path("given.pub").exists());
}

/// Covers: ssh-keygen -p; ssh-keygen -P; ssh-keygen -N
#[test]
fn passphrases_change_and_wrong_ones_are_refused() {
    let directory = TestDirectory::new();
    directory.ours(&["-q", "-t", "ed25519", "-N", "first", "-f", "key", "-C", "me", "-a", "2"]);
    let encrypted = directory.text("key");
    let wrong = directory.run(OURS, &["-y", "-P", "wrong", "-f", "key"], "");
    assert_eq!(
        (wrong.status, wrong.err.as_str()),
        (255, "Load key \"key\": incorrect passphrase supplied to decrypt private key\n")
    );
    let wrong = directory.run(OURS, &["-p", "-P", "wrong", "-N", "x", "-f", "key"], "");
    assert_eq!(
        (wrong.status, wrong.err.as_str()),
        (255, "Failed to load key key: incorrect passphrase supplied to decrypt private key\n")
    );
    assert_eq!(directory.text("key"), encrypted);
    let out = directory.ours(&["-p", "-P", "first", "-N", "", "-f", "key"]);
    assert_eq!(out, "Key has comment 'me'\nYour identification has been saved with the new passphrase.\n");
    assert_eq!(directory.ours(&["-y", "-f", "key"]), directory.text("key.pub"));
    assert_eq!(directory.mode("key"), 0o600);
    directory.ours(&["-p", "-N", "second", "-f", "key", "-a", "2"]);
    assert_eq!(directory.ours(&["-y", "-P", "second", "-f", "key"]), directory.text("key.pub"));
}

/// Covers: ssh-keygen -c; ssh-keygen -C
#[test]
fn comments_change_in_both_files() {
    let directory = TestDirectory::new();
    directory.ours(&["-q", "-t", "ed25519", "-N", "pass", "-f", "key", "-C", "old", "-a", "2"]);
    let out = directory.ours(&["-c", "-P", "pass", "-C", "new one", "-f", "key", "-a", "2"]);
    assert_eq!(out, "Old comment: old\nComment 'new one' applied\n");
    assert!(directory.text("key.pub").ends_with(" new one\n"));
    assert_eq!(directory.ours(&["-y", "-P", "pass", "-f", "key"]), directory.text("key.pub"));
    assert_eq!(
        directory.ours(&["-c", "-P", "pass", "-C", "new one", "-f", "key"]),
        "Old comment: new one\nNo change to comment\n"
    );
}

#[test]
fn errors_have_the_expected_text_and_status() {
    let directory = TestDirectory::new();
    directory.ours(&["-q", "-t", "ed25519", "-N", "", "-f", "open", "-C", "x"]);
    directory.set_mode("open", 0o644);
    directory.write("junk", "junk\n");
    for (arguments, status, error) in [
        (&["-t", "foo"][..], 255, "unknown key type foo"),
        (
            &["-t", "rsa", "-b", "512", "-N", "", "-f", "k"],
            255,
            "Invalid RSA key length: minimum is 1024 bits",
        ),
        (&["-t", "rsa", "-b", "abc", "-N", "", "-f", "k"], 255, "Bits has bad value abc (invalid)"),
        (
            &["-t", "ecdsa", "-b", "999", "-N", "", "-f", "k"],
            255,
            "Invalid ECDSA key length: valid lengths are 256, 384 or 521 bits",
        ),
        (&["-a", "0", "-t", "ed25519"], 255, "Invalid number: 0 (too small)"),
        (&["-E", "foo", "-l", "-f", "open"], 255, "Invalid hash algorithm \"foo\""),
        (&["-l", "-f", "nope"], 255, "ssh-keygen: nope: No such file or directory"),
        (&["-l", "-f", "junk"], 255, "junk is not a public key file."),
        (&["-y", "-f", "nope"], 255, "nope: No such file or directory"),
        (&["-p", "-f", "nope", "-N", "x"], 255, "nope: No such file or directory"),
        (
            &["-q", "-t", "ed25519", "-N", "", "-f", "/nodir/x"],
            1,
            "Saving key \"/nodir/x\" failed: No such file or directory",
        ),
        (&["-F", "a", "-f", "nokh"], 255, "Cannot stat nokh: No such file or directory"),
        (&["-i", "-f", "junk"], 255, "do_convert_from_ssh2: parse key: invalid format"),
        (&["-e", "-m", "foo", "-f", "open.pub"], 255, "Unsupported conversion format \"foo\""),
    ] {
        let ours = directory.run(OURS, arguments, "");
        assert_eq!(
            (ours.status, ours.err.trim_end().replace("lhssh-keygen", "ssh-keygen")),
            (status, error.to_owned()),
            "{arguments:?}"
        );
    }
    let said = directory.run(OURS, &["-y", "-f", "open"], "");
    assert_eq!(said.status, 255);
    assert!(
        said.err.contains("@         WARNING: UNPROTECTED PRIVATE KEY FILE!          @\n"),
        "{}",
        said.err
    );
    assert!(said.err.contains("Permissions 0644 for 'open' are too open.\n"), "{}", said.err);
    assert!(
        said.err.ends_with("This private key will be ignored.\nLoad key \"open\": bad permissions\n"),
        "{}",
        said.err
    );
    let said = directory.run(OURS, &["a", "b"], "");
    assert!(said.status == 1 && said.err.contains("Too many arguments.\nusage: "), "{}", said.err);
}

/// Covers: ssh-keygen -R
#[test]
fn removing_hosts_keeps_other_lines() {
    let directory = TestDirectory::new();
    known_hosts(&directory);
    let before = directory.text("known");
    let out = directory.ours(&["-R", "host1", "-f", "known"]);
    assert_eq!(
        out,
        "# Host host1 found: line 3\n# Host host1 found: line 9\nknown updated.\nOriginal contents retained as known.old\n"
    );
    assert_eq!(directory.text("known.old"), before);
    let expected: String =
        before.lines().filter(|line| !line.starts_with("host1")).map(|line| format!("{line}\n")).collect();
    assert_eq!(directory.text("known"), expected);
    let said = directory.run(OURS, &["-R", "host1", "-f", "known"], "");
    assert_eq!((said.status, said.err.as_str()), (0, "Host host1 not found in known\n"));
}

/// Covers: ssh-keygen -A
#[test]
fn missing_host_keys_are_generated_below_a_prefix() {
    let directory = TestDirectory::new();
    std::fs::create_dir_all(directory.path("root/etc/ssh")).expect("directories");
    directory.write("root/etc/ssh/ssh_host_rsa_key", "kept");
    let prefix = directory.path("root").display().to_string();
    let out = directory.ours(&["-A", "-f", &prefix]);
    assert_eq!(out, "lhssh-keygen: generating new host keys: ECDSA ED25519 MLDSA44-ED25519 \n");
    assert_eq!(directory.text("root/etc/ssh/ssh_host_rsa_key"), "kept");
    assert!(directory.path("root/etc/ssh/ssh_host_ed25519_key.pub").exists());
    assert!(
        directory
            .text("root/etc/ssh/ssh_host_mldsa44_ed25519_key.pub")
            .starts_with("ssh-mldsa44-ed25519 AAAA")
    );
    assert_eq!(directory.ours(&["-A", "-f", &prefix]), "");
}

/// Local times in winter, in summer, and where clocks change (OpenSSH's before 10.6 were off by an hour or
/// two).
///
/// Covers: ssh-keygen -V
#[test]
fn certificate_dates_follow_summer_time() {
    let directory = TestDirectory::new();
    directory.ours(&["-q", "-t", "ed25519", "-N", "", "-f", "k"]);
    for (zone, local, utc) in [
        // Rules in place of names: they need no installed table of zones.
        ("CET-1CEST,M3.5.0,M10.5.0/3", "202601011200", "2026-01-01T11:00:00"),
        ("CET-1CEST,M3.5.0,M10.5.0/3", "202607011200", "2026-07-01T10:00:00"),
        ("CET-1CEST,M3.5.0,M10.5.0/3", "20260329013000", "2026-03-29T00:30:00"),
        ("CET-1CEST,M3.5.0,M10.5.0/3", "202603290330", "2026-03-29T01:30:00"),
        ("CET-1CEST,M3.5.0,M10.5.0/3", "202610250130", "2026-10-24T23:30:00"),
        ("CET-1CEST,M3.5.0,M10.5.0/3", "202610250330", "2026-10-25T02:30:00"),
        ("EST5EDT,M3.2.0,M11.1.0", "202603080130", "2026-03-08T06:30:00"),
        ("EST5EDT,M3.2.0,M11.1.0", "20260401", "2026-04-01T04:00:00"),
        ("EST5EDT,M3.2.0,M11.1.0", "20261201", "2026-12-01T05:00:00"),
        // Half an hour, and two hours.
        ("LHST-10:30LHDT-11,M10.1.0,M4.1.0", "202601011200", "2026-01-01T01:00:00"),
        ("LHST-10:30LHDT-11,M10.1.0,M4.1.0", "202607011200", "2026-07-01T01:30:00"),
        ("TROLL0CEST-2,M3.5.0/1,M10.5.0/3", "202607011200", "2026-07-01T10:00:00"),
        ("TROLL0CEST-2,M3.5.0/1,M10.5.0/3", "202601011200", "2026-01-01T12:00:00"),
    ] {
        let validity = format!("{local}:forever");
        let args = ["-q", "-s", "k", "-I", "id", "-n", "me", "-V", &validity, "k.pub"];
        let signed = directory.run_with(OURS, &args, "", &[("TZ", zone)]);
        assert_eq!(signed.status, 0, "{zone} {local}: {}", signed.err);
        let shown = directory.run_with(OURS, &["-L", "-f", "k-cert.pub"], "", &[("TZ", "UTC0")]);
        assert!(shown.out.contains(&format!("Valid: after {utc}\n")), "{zone} {local}: {}", shown.out);
    }
}

/// Covers: ssh-keygen -e; ssh-keygen -m
#[test]
fn keys_are_dumped_in_hexadecimal() {
    let directory = TestDirectory::new();
    directory.ours(&["-q", "-t", "ed25519", "-N", "secret", "-a", "1", "-f", "k"]);
    let public = directory.ours(&["-e", "-m", "hexdump", "-f", "k.pub"]);
    let lines: Vec<&str> = public.lines().collect();
    assert_eq!(lines[..2], ["Public ED25519 key:", "buffer len = 51"]);
    assert_eq!(lines[2], "0000: 00 00 00 0b 73 73 68 2d 65 64 32 35 35 31 39 00  ....ssh-ed25519.");
    assert_eq!((lines.len(), lines[5].len()), (6, 58));
    let both = directory.ours(&["-e", "-m", "hexdump", "-P", "secret", "-f", "k"]);
    let private = both.strip_prefix(&format!("{public}\n")).expect("the public key first");
    assert!(private.starts_with("Private ED25519 key:\nbuffer len = 119\n0000: "), "{private}");
    assert_eq!(private.lines().count(), 2 + 8);
    assert_ne!(directory.run(OURS, &["-i", "-m", "hexdump", "-f", "k.pub"], "").status, 0);
}

/// Covers: ssh-keygen -a
#[test]
fn rounds_of_new_keys_are_limited() {
    let directory = TestDirectory::new();
    directory.ours(&["-q", "-t", "ed25519", "-N", "secret", "-f", "k"]);
    // 32, then the number of keys, 1.
    let hidden = directory.text("k").lines().filter(|line| !line.starts_with('-')).collect::<String>();
    assert!(hidden.contains("AAAAIAAAAAEAAAAz"), "{hidden}");
    let said =
        directory.run(OURS, &["-q", "-t", "ed25519", "-N", "secret", "-a", "1048577", "-f", "many"], "");
    assert_ne!(said.status, 0);
    assert!(said.err.starts_with("Saving key \"many\" failed: "), "{}", said.err);
    assert_eq!(directory.names(), ["k", "k.pub"]);
}

/// Covers: ssh-keygen -p; ssh-keygen -O
#[test]
fn requirements_are_for_keys_in_hardware() {
    let directory = TestDirectory::new();
    directory.ours(&["-q", "-t", "ed25519", "-N", "", "-f", "k"]);
    let said = directory.run(OURS, &["-p", "-N", "", "-O", "no-touch-required", "-f", "k"], "");
    assert_eq!(said.status, 255);
    assert_eq!(said.err, "FIDO-specific option requested for non-FIDO key k\n");
}

/// Covers: ssh-keygen -l
#[test]
fn fingerprints_of_authorized_keys_skip_options() {
    let directory = TestDirectory::new();
    directory.ours(&["-q", "-t", "ed25519", "-N", "", "-f", "k", "-C", "a b"]);
    let key = directory.text("k.pub");
    directory.write("authorized", format!("# note\nrestrict,command=\"a \\\"b\\\" c\" {key}\n{key}"));
    let line = directory.ours(&["-l", "-f", "k.pub"]);
    assert_eq!(directory.ours(&["-l", "-f", "authorized"]), format!("{line}{line}"));
}

#[test]
fn private_key_mode_excludes_others() {
    let directory = TestDirectory::new();
    directory.write("loose", "not a key");
    directory.set_mode("loose", 0o666);
    for name in ["fresh", "loose"] {
        let command = format!("umask 0; echo y | '{OURS}' -q -t ed25519 -N '' -f {name}");
        assert_eq!(directory.run("/bin/sh", &["-c", &command], "").status, 0);
        assert_eq!(directory.mode(name), 0o600, "{name}");
    }
    // The public key keeps the mode that its owner has set.
    directory.set_mode("fresh.pub", 0o640);
    directory.ours(&["-c", "-C", "x", "-f", "fresh"]);
    assert_eq!(directory.mode("fresh.pub"), 0o640);
}

#[test]
fn full_disk_leaves_the_old_key() {
    let directory = TestDirectory::new();
    directory.ours(&["-q", "-t", "ed25519", "-N", "", "-f", "key", "-C", "me"]);
    let before = (directory.text("key"), directory.text("key.pub"), directory.names());
    // No file may get any contents, as on a full disk.
    for arguments in ["-p -N x -a 2", "-c -C new", "-q -t ed25519 -N ''"] {
        let command = format!("trap '' XFSZ; ulimit -f 0; echo y | '{OURS}' {arguments} -f key");
        let said = directory.run("/bin/sh", &["-c", &command], "");
        assert_eq!(said.status, 1, "{arguments}: {said:?}");
        assert!(said.err.starts_with("Saving key \"key\" failed: File too large\n"), "{said:?}");
        assert_eq!(
            (directory.text("key"), directory.text("key.pub"), directory.names()),
            before,
            "{arguments}"
        );
    }
    let command = format!("trap '' XFSZ; ulimit -f 0; '{OURS}' -q -t ed25519 -N '' -f another");
    assert_eq!(directory.run("/bin/sh", &["-c", &command], "").status, 1);
    assert_eq!(directory.names(), before.2);
}

/// Has no effect as root, whom directory permissions do not stop.
#[test]
fn key_in_unwritable_directory_is_overwritten() {
    let directory = TestDirectory::new();
    std::fs::create_dir(directory.path("directory")).expect("made");
    directory.ours(&["-q", "-t", "ed25519", "-N", "", "-f", "directory/key", "-C", "me"]);
    directory.set_mode("directory", 0o500);
    let full = format!("trap '' XFSZ; ulimit -f 0; '{OURS}' -p -N x -a 2 -f directory/key");
    let before = directory.text("directory/key");
    assert_eq!(directory.run("/bin/sh", &["-c", &full], "").status, 1);
    assert_eq!(directory.text("directory/key"), before);
    for passphrase in ["x", ""] {
        directory.ours(&["-p", "-P", "x", "-N", passphrase, "-a", "2", "-f", "directory/key"]);
        assert_eq!(
            directory.ours(&["-y", "-P", passphrase, "-f", "directory/key"]),
            directory.text("directory/key.pub")
        );
    }
    directory.set_mode("directory", 0o700);
}

#[test]
fn links_and_pipes_are_written_through() {
    let directory = TestDirectory::new();
    directory.ours(&["-q", "-t", "ed25519", "-N", "", "-f", "key", "-C", "me"]);
    std::os::unix::fs::symlink("key", directory.path("link")).expect("a link");
    directory.ours(&["-p", "-N", "x", "-a", "2", "-f", "link"]);
    assert!(directory.path("link").is_symlink());
    assert_eq!(directory.ours(&["-y", "-P", "x", "-f", "key"]), directory.text("key.pub"));
    let piped = directory.run("/bin/sh", &["-c", &format!("cat key | '{OURS}' -y -P x -f /dev/stdin")], "");
    assert_eq!(piped.out, directory.text("key.pub"));
}

#[test]
fn invalid_key_files_are_refused_with_a_message() {
    let directory = TestDirectory::new();
    directory.ours(&["-q", "-t", "ed25519", "-N", "", "-f", "key", "-C", "me"]);
    directory.ours(&["-q", "-t", "rsa", "-b", "2048", "-N", "secret", "-a", "2", "-f", "locked", "-C", "me"]);
    let mut files: Vec<Vec<u8>> = vec![
        Vec::new(),
        b"junk\n".to_vec(),
        vec![0; 2 << 20],
        vec![0xff; 4096],
        b"-----BEGIN OPENSSH PRIVATE KEY-----\n".repeat(20_000),
        b"-----BEGIN RSA PRIVATE KEY-----\nAAAA\n-----END RSA PRIVATE KEY-----\n".to_vec(),
    ];
    for name in ["key", "locked"] {
        let whole = directory.text(name).into_bytes();
        for part in 1..12 {
            files.push(whole[..whole.len() * part / 12].to_vec());
            let mut changed = whole.clone();
            changed[whole.len() * part / 12] ^= 4;
            files.push(changed);
        }
    }
    for contents in files {
        directory.write("bad", &contents);
        for arguments in
            [&["-y", "-P", "secret"][..], &["-p", "-P", "secret", "-N", ""], &["-l"], &["-L"], &["-i"]]
        {
            let said = directory.run(OURS, &[arguments, &["-f", "bad"]].concat(), "");
            // Parts of a damaged file may be readable; every case must end with a known status and a message.
            assert!([0, 1, 255].contains(&said.status), "{arguments:?}: {said:?}");
            // An empty list of certificates is refused without a message, by ssh-keygen too.
            let explained = !said.err.is_empty() || (arguments[0] == "-L" && contents.is_empty());
            assert!(said.status == 0 || explained, "{arguments:?}: {said:?}");
            if said.status != 0 {
                assert_eq!(std::fs::read(directory.path("bad")).expect("there"), contents, "{arguments:?}");
            }
            directory.write("bad", &contents);
        }
    }
}

/// The message names what is refused, and no file is left behind.
#[test]
fn refused_arguments_leave_no_file() {
    let directory = TestDirectory::new();
    for (arguments, status, error) in [
        ("-t mldsa65-ed25519 -N x -f k", 255, "unknown key type mldsa65-ed25519\n"),
        ("-t rsa -b 1032 -N x -f k", 255, "Invalid RSA key length: must be a multiple of 128 bits\n"),
        ("-t ed25519 -N x -f k -Z rot13", 255, "Invalid OpenSSH-format cipher 'rot13'\n"),
        ("-D library", 255, "cannot read public key from pkcs11\n"),
    ] {
        let said = directory.run(OURS, &arguments.split(' ').collect::<Vec<_>>(), "");
        assert_eq!(said.status, status, "{arguments}: {said:?}");
        assert!(said.err.ends_with(error), "{arguments}: {said:?}");
        assert_eq!(directory.names(), Vec::<String>::new());
    }
}
