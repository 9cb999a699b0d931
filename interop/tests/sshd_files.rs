//! `sshd_config` files from real systems: Longhaul's `sshd -T` and OpenSSH's print equal settings, for
//! several users.

use std::path::{Path, PathBuf};

use lh_interop::dumps::{LISTS, Settings, by_keyword, differing, edits};
use lh_interop::{Lab, Ran, ServerSetup, our, peers, script};

/// Connections to evaluate the files for, with `-C`.
const PEOPLE: &[&str] = &[
    "user=root,host=h.example,addr=192.0.2.7,laddr=127.0.0.1,lport=2222",
    "user=nobody,host=x,addr=10.0.0.1,laddr=127.0.0.1,lport=22",
    "user=nobody,host=evil.example,addr=10.0.0.1,laddr=127.0.0.1,lport=2222",
];

/// Runs `program -T` on the file for one connection.
fn ask(lab: &Lab, program: &Path, file: &str, person: &str) -> Ran {
    lab.run(program, &["-T", "-h", &lab.arg("host_ed25519"), "-f", &lab.arg(file), "-C", person])
}

/// Covers: sshd -T; sshd -C; sshd_config Match; sshd_config Include; sshd_config AllowUsers; sshd_config PermitOpen
#[test]
fn real_sshd_config_files_evaluate_like_openssh() {
    let Some([sshd]) = peers("files_found_on_servers", ["sshd"]) else { return };
    let lab = Lab::new();
    std::fs::create_dir_all("/run/sshd").unwrap_or_default();
    lab.write("empty", "");
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sshd_files");
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let settings = |program: &Path, file: &str, person: &str| -> (Settings, String) {
        let ran = ask(&lab, program, file, person);
        assert_eq!(ran.code, 0, "{} {file} {person}: {}", program.display(), ran.err);
        (by_keyword(&ran.text()), ran.err.replace('\r', ""))
    };
    let mut wrong = Vec::new();
    for person in PEOPLE {
        let (our_default, _) = settings(&our("lhsshd"), "empty", person);
        let (their_default, _) = settings(&sshd, "empty", person);
        for file in &files {
            let name = file.file_name().unwrap().to_string_lossy();
            let text = std::fs::read_to_string(file).unwrap().replace("{DIR}", &lab.arg(""));
            lab.write(&name, &text);
            let (ours, our_words) = settings(&our("lhsshd"), &name, person);
            let (theirs, their_words) = settings(&sshd, &name, person);
            for keyword in differing((&ours, &our_default), (&theirs, &their_default)) {
                if !(LISTS.contains(&keyword) && edits(&text, keyword)) {
                    let (ours, theirs) = (ours.get(keyword), &theirs[keyword]);
                    wrong.push(format!("{name} {person}: {keyword}: {ours:?}, OpenSSH {theirs:?}"));
                }
            }
            // OpenSSH's repeats some messages when it evaluates the file for the connection; options that are
            // not built in differ.
            let said = |words: &str| -> Vec<String> {
                let lines = words
                    .lines()
                    .filter(|line| line.contains("Deprecated") && !line.starts_with("reprocess"));
                lines.map(str::to_owned).collect()
            };
            if said(&our_words) != said(&their_words) {
                wrong.push(format!("{name}: says {our_words:?}, OpenSSH {their_words:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(files.len() >= 7, "{files:?}");
}

/// Quoted arguments of a subsystem's command reach its program as one argument.
///
/// Covers: sshd_config Subsystem; ssh -s
#[test]
fn quoted_subsystem_arguments_stay_whole() {
    let lab = Lab::new();
    script(&lab.path("show words"), "for word; do echo \"<$word>\"; done");
    let config = "Subsystem words \"{lab}/show words\" \"two  blanks\" plain\nSubsystem sftp internal-sftp";
    let Some(setup) = ServerSetup::with_lab("a_subsystem_s_words", lab, config) else { return };
    assert_eq!(setup.ssh(&["-s"], &["words"]).ok("subsystem").text(), "<two  blanks>\n<plain>\n");
}
