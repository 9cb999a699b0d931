//! Moduli: candidates of one program, screened by ours and the system's ssh-keygen.

mod common;

use common::{OURS, TestDirectory, Theirs};

/// The moduli of a file, in order.
fn moduli(text: &str) -> Vec<String> {
    text.lines().map(|line| line.split(' ').skip(4).collect::<Vec<_>>().join(" ")).collect()
}

/// Covers: ssh-keygen -M; ssh-keygen -O
#[test]
fn candidates_are_exchanged_with_ssh_keygen() {
    let Some(_theirs) = Theirs::find("candidates_are_exchanged_with_ssh_keygen") else { return };
    let directory = TestDirectory::new();
    let said = directory.run(OURS, &["-M", "generate", "-O", "bits=512", "candidates"], "");
    assert_eq!((said.status, said.out.as_str()), (0, ""), "{said:?}");
    let all = directory.text("candidates");
    let few: String = all.lines().take(1000).map(|line| format!("{line}\n")).collect();
    assert!(few.lines().all(|line| line.contains(" 4 2 0 511 0 ")), "{few}");
    directory.write("few", format!("# note\njunk\n{few}"));
    let mut results = Vec::new();
    for (program, out) in [("ssh-keygen", "theirs"), (OURS, "ours")] {
        let screen = ["-M", "screen", "-f", "few", "-O", "prime-tests=5", out];
        let said = directory.run(program, &screen, "");
        assert_eq!(said.status, 0, "{said:?}");
        results.push(moduli(&directory.text(out)));
    }
    assert_eq!(results[0], results[1]);
    // Screened moduli can be screened again, also in parts.
    if let Some(first) = directory.text("ours").lines().next() {
        directory.write("again", format!("{first}\n{first}\n{first}\n"));
        for (options, lines) in [
            (&["-O", "lines=1"][..], 1),
            (&["-O", "start-line=1", "-O", "lines=1"], 1),
            (&["-O", "start-line=2", "-O", "checkpoint=place"], 1),
            (&["-O", "generator=7"], 0),
        ] {
            let arguments =
                [&["-M", "screen", "-f", "again", "-O", "prime-tests=3"], options, &["out"]].concat();
            assert_eq!(directory.run(OURS, &arguments, "").status, 0);
            assert_eq!(directory.text("out").lines().count(), lines, "{options:?}");
            assert!(!directory.path("place").exists());
        }
    }
}

/// Covers: ssh-keygen -M
#[test]
fn error_messages_match_ssh_keygen() {
    let Some(theirs) = Theirs::find("error_messages_match_ssh_keygen") else { return };
    let directory = TestDirectory::new();
    for arguments in [
        "-M screen",
        "-M generate",
        "-M dance out",
        "-M screen a b",
        "-M screen -f missing out",
        "-M screen -O foo out",
        "-M generate -O foo out",
        "-M generate -O bits=100 out",
    ] {
        let said = theirs.same(&directory, &arguments.split(' ').collect::<Vec<_>>());
        assert_eq!(said.status, 255, "{arguments}");
    }
}
