//! Keys in other programs' formats, DNS records and fingerprints, compared with the system's ssh-keygen.

mod common;

use common::{OURS, TestDirectory, Theirs};

const KINDS: [(&str, &str); 5] =
    [("ed25519", "256"), ("ecdsa", "256"), ("ecdsa", "384"), ("ecdsa", "521"), ("rsa", "2048")];

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

/// Covers: ssh-keygen -m; ssh-keygen -p; ssh-keygen -N; ssh-keygen -P
#[test]
fn private_keys_are_written_in_every_format() {
    let Some(theirs) = Theirs::find("private_keys_are_written_in_every_format") else { return };
    let directory = TestDirectory::new();
    for (kind, bits) in KINDS {
        for format in ["RFC4716", "PEM", "PKCS8"] {
            for passphrase in ["", "open sesame"] {
                let name = &format!("{kind}-{bits}-{format}-{}", passphrase.len());
                let make = ["-qt", kind, "-b", bits, "-m", format, "-N", passphrase, "-C", "me", "-f"];
                directory.ours(&[&make[..], &[name]].concat());
                assert_eq!(directory.mode(name), 0o600);
                let public = directory.text(&format!("{name}.pub"));
                assert!(public.ends_with(" me\n"));
                // OpenSSH 9 does not support Ed25519 in PKCS#8, later releases do.
                let ours_alone = kind == "ed25519" && format == "PKCS8";
                if !ours_alone {
                    theirs.run(&directory, &[&make[..], &["theirs"]].concat());
                    assert_eq!(
                        first_line(&directory.text(name)),
                        first_line(&directory.text("theirs")),
                        "{name}"
                    );
                    for file in ["theirs", "theirs.pub"] {
                        std::fs::remove_file(directory.path(file)).expect("removed");
                    }
                    let shown = theirs.run(&directory, &["-y", "-P", passphrase, "-f", name]);
                    assert_eq!(shown, directory.ours(&["-y", "-P", passphrase, "-f", name]), "{name}");
                }
                // Converts from every format into every other.
                for to in ["RFC4716", "PEM", "PKCS8"] {
                    if passphrase.is_empty() || bits == "384" || bits == "521" {
                        continue;
                    }
                    let change = ["-p", "-P", passphrase, "-N", "other", "-m", to, "-a", "2", "-f", name];
                    directory.ours(&change);
                    directory.ours(&["-p", "-P", "other", "-N", passphrase, "-m", to, "-a", "2", "-f", name]);
                    let shown = directory.ours(&["-y", "-P", passphrase, "-f", name]);
                    assert!(public.starts_with(shown.trim_end().trim_end_matches(" me")), "{name} {to}");
                }
            }
        }
    }
    directory.ours(&["-qt", "ecdsa", "-N", "", "-C", "me", "-f", "e"]);
    let before = directory.text("e");
    for format in ["PEM", "PKCS8"] {
        theirs.same(&directory, &["-p", "-m", format, "-N", "four", "-f", "e"]);
        theirs.same(&directory, &["-c", "-m", format, "-C", "new", "-f", "e"]);
        assert_eq!(directory.text("e"), before);
    }
}

/// Covers: ssh-keygen -Z
#[test]
fn private_keys_use_the_named_cipher() {
    let Some(theirs) = Theirs::find("private_keys_use_the_named_cipher") else { return };
    let directory = TestDirectory::new();
    for cipher in ["aes128-cbc", "aes192-ctr", "aes256-gcm@openssh.com"] {
        let name = &cipher.replace('@', "-");
        directory.ours(&["-qt", "ed25519", "-N", "secret", "-a", "2", "-Z", cipher, "-C", "me", "-f", name]);
        let shown = theirs.same(&directory, &["-y", "-P", "secret", "-f", name]);
        assert_eq!(shown.out, directory.text(&format!("{name}.pub")));
        directory.ours(&["-p", "-P", "secret", "-N", "other", "-a", "2", "-Z", "aes256-cbc", "-f", name]);
        theirs.same(&directory, &["-y", "-P", "other", "-f", name]);
    }
    for arguments in [["-Z", "foo", "-p", "-N", "x", "-f", "k"], ["-Z", "foo", "-t", "rsa", "-N", "x", "-q"]]
    {
        theirs.same(&directory, &arguments);
    }
}

/// Covers: ssh-keygen -e; ssh-keygen -i; ssh-keygen -m
#[test]
fn public_keys_round_trip_in_every_format() {
    let Some(theirs) = Theirs::find("public_keys_round_trip_in_every_format") else { return };
    let directory = TestDirectory::new();
    for (kind, bits) in KINDS {
        let name = &format!("{kind}-{bits}");
        directory.ours(&["-qt", kind, "-b", bits, "-N", "", "-C", "", "-f", name]);
        for format in ["RFC4716", "PKCS8", "PEM"] {
            for file in [name.clone(), format!("{name}.pub")] {
                let arguments = ["-e", "-m", format, "-f", &file];
                if kind == "ed25519" && format == "PKCS8" {
                    // OpenSSH 9 does not support this.
                    let exported = directory.ours(&arguments);
                    directory.write("exported", exported);
                    assert_eq!(
                        directory.ours(&["-i", "-m", format, "-f", "exported"]),
                        directory.text(&format!("{name}.pub"))
                    );
                    continue;
                }
                let exported = theirs.same(&directory, &arguments).out;
                directory.write("exported", exported);
                for format in ["RFC4716", "PKCS8", "PEM"] {
                    if first_line(&directory.text("exported")).starts_with("-----") && format == "RFC4716" {
                        // Both programs refuse, with different messages.
                        assert_eq!(directory.run(OURS, &["-i", "-f", "exported"], "").status, 255);
                        continue;
                    }
                    theirs.same(&directory, &["-i", "-m", format, "-f", "exported"]);
                }
            }
        }
    }
    directory.ours(&["-q", "-s", "ed25519-256", "-I", "x", "ecdsa-256.pub"]);
    for format in ["RFC4716", "PKCS8", "PEM"] {
        theirs.same(&directory, &["-e", "-m", format, "-f", "ecdsa-256-cert.pub"]);
        theirs.same(&directory, &["-i", "-m", format, "-f", "missing"]);
    }
}

/// Covers: ssh-keygen -r; ssh-keygen -g
#[test]
fn dns_records_match_ssh_keygen() {
    let Some(theirs) = Theirs::find("dns_records_match_ssh_keygen") else { return };
    let directory = TestDirectory::new();
    for (kind, bits) in KINDS {
        let name = &format!("{kind}-{bits}");
        directory.ours(&["-qt", kind, "-b", bits, "-N", "", "-C", "c", "-f", name]);
        for file in [name.clone(), format!("{name}.pub")] {
            let both = theirs.same(&directory, &["-r", "host.example", "-f", &file]).out;
            theirs.same(&directory, &["-r", "host.example", "-g", "-f", &file]);
            // OpenSSH 9 has no option for the hash.
            for (hash, number) in [("sha1", " 1 "), ("sha256", " 2 ")] {
                let one =
                    directory.ours(&["-r", "host.example", "-O", &format!("hashalg={hash}"), "-f", &file]);
                assert!(one.lines().count() == 1 && one.contains(number) && both.contains(&one), "{one}");
            }
        }
    }
    theirs.same(&directory, &["-r", "host", "-f", "missing"]);
    directory.ours(&["-q", "-s", "ed25519-256", "-I", "x", "ecdsa-256.pub"]);
    theirs.same(&directory, &["-r", "host", "-f", "ecdsa-256-cert.pub"]);
    assert_eq!(directory.run(OURS, &["-r", "host", "-O", "hashalg=md5", "-f", "rsa-2048"], "").status, 255);
}

/// Covers: ssh-keygen -B; ssh-keygen -E; ssh-keygen -l; ssh-keygen -v
#[test]
fn digests_match_ssh_keygen() {
    let Some(theirs) = Theirs::find("digests_match_ssh_keygen") else { return };
    let directory = TestDirectory::new();
    for (kind, bits) in KINDS {
        let name = &format!("{kind}-{bits}");
        directory.ours(&["-qt", kind, "-b", bits, "-N", "", "-C", "c", "-f", name]);
        for file in [name.clone(), format!("{name}.pub")] {
            theirs.same(&directory, &["-B", "-f", &file]);
            for hash in ["md5", "sha1", "sha256", "sha384", "SHA512"] {
                theirs.same(&directory, &["-lv", "-E", hash, "-f", &file]);
            }
        }
    }
}

/// Lines with a damaged key are still matched by their host names.
///
/// Covers: ssh-keygen -R; ssh-keygen -F; ssh-keygen -H
#[test]
fn damaged_lines_are_found_hashed_and_removed() {
    let Some(theirs) = Theirs::find("damaged_lines_are_found_hashed_and_removed") else { return };
    let directory = TestDirectory::new();
    directory.ours(&["-qt", "ed25519", "-N", "", "-C", "c", "-f", "k"]);
    let contents = format!(
        "host1 ssh-ed25519 AAAAbroken some note\nhost2,host3 {}host1 ssh-rsa x\n@revoked host1 ssh-rsa x\n",
        directory.text("k.pub")
    );
    directory.write("known", &contents);
    for arguments in [["-F", "host1"], ["-F", "host2"], ["-lF", "host2"], ["-F", "nobody"]] {
        theirs.same(&directory, &[&arguments[..], &["-f", "known"]].concat());
    }
    for host in ["host1", "host3"] {
        let mut results = Vec::new();
        for program in ["ssh-keygen", OURS] {
            directory.write("known", &contents);
            let said = directory.run(program, &["-R", host, "-f", "known"], "");
            results.push((said, directory.text("known")));
        }
        assert_eq!(results[0], results[1], "{host}");
        assert!(!results[1].1.starts_with("host1 ") || host != "host1");
    }
    // Salts are random, so everything but the hashes is compared.
    let unhashed = |text: &str| -> Vec<String> {
        text.lines().map(|line| line.split_once(' ').map_or(line, |(_, rest)| rest).to_owned()).collect()
    };
    let mut results = Vec::new();
    for program in ["ssh-keygen", OURS] {
        directory.write("known", &contents);
        let found = directory.run(program, &["-HF", "host2", "-f", "known"], "");
        let said = directory.run(program, &["-H", "-f", "known"], "");
        results.push((said, unhashed(&found.out), unhashed(&directory.text("known"))));
    }
    assert_eq!(results[0], results[1]);
}
