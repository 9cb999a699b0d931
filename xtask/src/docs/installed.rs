//! Runs the commands with which `docs/install.md` installs manual pages and completions.

use std::fs;
use std::process::Command;

use crate::workspace::root;

#[test]
fn the_page_s_commands_install_manuals_and_completions() {
    let page = fs::read_to_string(root().join("docs/install.md")).unwrap();
    let blocks = lh_interop::shown::code(&page);
    let block = blocks.iter().find(|block| block.lines.first() == Some(&"cargo xtask docs")).unwrap();
    // Cargo would wait for the build that runs this test.
    let home = tempfile::tempdir().unwrap();
    super::run(&["--out".to_owned(), home.path().join("target/docs").display().to_string()]).unwrap();
    let mut shell = Command::new("sh");
    shell.args(["-euc", &block.lines[1..].join("\n")]).current_dir(home.path()).env("HOME", home.path());
    let ran = shell.output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let share = home.path().join(".local/share");
    for (name, text) in super::files() {
        let place = match name.split_once('/').unwrap() {
            ("man", _) => name.clone(),
            ("completions", file) if file.starts_with("bash/") => {
                name.replace("completions/bash", "bash-completion/completions")
            }
            _ => continue,
        };
        let installed =
            fs::read_to_string(share.join(&place)).unwrap_or_else(|error| panic!("{place}: {error}"));
        assert!(installed == text, "{place}");
    }
}
