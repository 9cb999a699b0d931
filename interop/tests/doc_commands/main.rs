//! Every command that a page of the documentation site shows is run by a test, or is in a list with the
//! reason why none can run it.
//!
//! - Blocks marked `sh runnable` are run by `doc_pages.rs` and `doc_first_steps.rs`.
//! - Commands in scenes are run here, as the page shows them.
//! - [`followed`] finds those that the tests of the packages run, in new Debian systems and in Podman.
//! - [`elsewhere`] lists the others: a test that runs them in another form, or the reason.
//!
//! The manual pages have their examples run by `manual_examples.rs`.

mod admins;
mod elsewhere;
mod followed;
mod pages;
mod scene;
mod users;

use std::collections::BTreeSet;
use std::fmt::Write as _;

use elsewhere::{ELSEWHERE, How};
use lh_cli::flags::PROGRAMS;
use lh_interop::shown::code;
use lh_interop::{Lab, our};
use scene::{Scene, play};

const SCENES: [&Scene; 5] =
    [&users::USERS, &users::MEASURING, &admins::ADMINS, &admins::CHECKOUT, &admins::TOKEN];

#[test]
fn users_follow_the_pages() {
    play(&users::USERS);
}

#[test]
fn users_measure_as_the_page_says() {
    play(&users::MEASURING);
}

#[test]
fn administrators_follow_the_pages() {
    play(&admins::ADMINS);
}

#[test]
fn a_checkout_is_installed_as_the_page_says() {
    play(&admins::CHECKOUT);
}

#[test]
fn keys_of_tokens_are_used_as_the_page_says() {
    play(&admins::TOKEN);
}

/// The rows of scenes and of [`ELSEWHERE`]: page, and beginning of the command.
fn rows() -> Vec<(&'static str, &'static str)> {
    let of_scenes = SCENES.iter().flat_map(|scene| {
        scene.commands.iter().flat_map(|(page, rows)| rows.iter().map(move |row| (*page, row.0)))
    });
    let elsewhere = ELSEWHERE.iter().flat_map(|(page, rows)| rows.iter().map(move |row| (*page, row.0)));
    of_scenes.chain(elsewhere).collect()
}

#[test]
fn every_command_of_the_pages_is_run_or_listed() {
    let (calls, rows) = (followed::all_calls(), rows());
    let (mut used, mut unused_calls) = (BTreeSet::new(), vec![true; calls.len()]);
    let (mut wrong, mut seen) = (String::new(), 0);
    for page in pages::names() {
        for command in pages::commands(page) {
            seen += 1;
            let mut is_run = false;
            for &(name, start) in &rows {
                if name == page && command.text.starts_with(start) {
                    is_run = true;
                    used.insert((name, start));
                }
            }
            for (call, unused) in calls.iter().zip(&mut unused_calls) {
                if call.is(page, &command.text) {
                    (is_run, *unused) = (true, false);
                }
            }
            if !is_run {
                let _ = writeln!(wrong, "{page}:{}: no test runs {}", command.line, command.text);
            }
        }
    }
    for (page, start) in rows.iter().filter(|row| !used.contains(row)) {
        let _ = writeln!(wrong, "{page} has no command any more that begins with {start}");
    }
    for (call, _) in calls.iter().zip(unused_calls).filter(|(_, unused)| *unused) {
        let _ =
            writeln!(wrong, "{}: {} has no command that begins with {}", call.script, call.page, call.start);
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(seen > 150, "only {seen} commands found");
}

/// Returns whether a line calls a program of ours. In a message a colon stands behind its name.
fn is_call(line: &str) -> bool {
    let mut words = line.split_whitespace();
    let is_ours =
        words.clone().next().is_some_and(|word| PROGRAMS.iter().any(|program| program.name == word));
    is_ours && !words.by_ref().take(2).any(|word| word.ends_with(':'))
}

/// The lists name tests, steps and blocks that exist.
#[test]
fn tests_and_blocks_of_the_lists_exist() {
    let mut wrong = String::new();
    let steps = pages::read("xtask/src/test.rs");
    for (page, start, how) in
        ELSEWHERE.iter().flat_map(|(page, rows)| rows.iter().map(move |(start, how)| (page, start, how)))
    {
        let is_there = match how {
            How::Test(file, name) => pages::read(file).contains(&format!("fn {name}(")),
            How::Script(name) => {
                let script = pages::read(&format!("packaging/tests/{name}"));
                script.contains(start) && script.contains(page)
            }
            How::Step(name) => steps.contains(&format!("(\"{name}\", ")),
            How::Lacks(why) => why.len() > 10,
        };
        if !is_there {
            let _ = writeln!(wrong, "{page}: {start}: not there");
        }
    }
    let mut left: BTreeSet<_> = pages::NO_COMMANDS.iter().collect();
    for page in pages::names() {
        let text = pages::read(page);
        for block in code(&text) {
            match (block.info, pages::without_commands(page, &block)) {
                (None, Some(listed)) => left.remove(listed),
                (Some("text"), _) => true,
                _ => continue,
            };
            if let Some(line) = block.lines.iter().find(|line| is_call(line)) {
                let _ = writeln!(wrong, "{page}:{}: a command in a block without any: {line}", block.line);
            }
        }
    }
    for (page, start) in left {
        let _ = writeln!(wrong, "{page} has no block any more that begins with {start}");
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn the_upload_hook_of_the_page_takes_pdf_files_alone() {
    let text = pages::read("docs/server.md");
    let blocks = code(&text);
    let hook = blocks.iter().find(|block| block.lines.first() == Some(&pages::UPLOAD_HOOK)).unwrap();
    let lab = Lab::new();
    lab.write("hook", &(hook.lines.join("\n") + "\n"));
    lab.write("right", "%PDF-1.7\n");
    lab.write("wrong", "text");
    for (name, file, said) in [
        ("a b.pdf", "right", None),
        ("a.txt", "right", Some("only PDF files are taken\n")),
        ("a.pdf", "wrong", Some("this is no PDF file\n")),
    ] {
        let mut shell = std::process::Command::new("sh");
        shell.args([lab.arg("hook"), lab.arg(file)]).env("LONGHAUL_UPLOAD_PATH", name);
        let ran = shell.output().unwrap();
        assert_eq!(
            (ran.status.success(), said.unwrap_or_default()),
            (said.is_none(), &*String::from_utf8_lossy(&ran.stderr))
        );
    }
}

/// The client or the server accepts each block of settings.
#[test]
fn settings_of_the_pages_are_accepted() {
    let lab = Lab::new();
    let (mut wrong, mut seen) = (String::new(), 0);
    for page in pages::names() {
        for (line, text) in pages::settings(page) {
            seen += 1;
            lab.write("settings", &text);
            let server = lab.run(&our("lhsshd"), &["-t", "-f", "settings", "-h", &lab.arg("host_ed25519")]);
            let client = lab.run(&our("lhssh"), &["-G", "-F", "settings", "host"]);
            if server.code != 0 && client.code != 0 {
                let _ = writeln!(wrong, "{page}:{line}:\n{text}{}{}", server.err, client.err);
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(seen > 15, "only {seen} blocks found");
}

/// Blocks that are marked `sh runnable` are on a page that a test runs.
#[test]
fn runnable_blocks_are_run() {
    let tests = pages::read("interop/tests/doc_pages.rs") + &pages::read("interop/tests/doc_first_steps.rs");
    for page in pages::names() {
        let text = pages::read(page);
        for block in code(&text) {
            let info = block.info.unwrap_or("sh");
            if info.starts_with("sh runnable") {
                let call = [format!("run_page(\"{page}\")"), format!("follow(\"{page}\", ")];
                assert!(
                    call.iter().any(|call| tests.contains(call)),
                    "{page}:{}: no test runs it",
                    block.line
                );
            } else {
                // A kind without a meaning here could hide commands.
                let known = ["sh", "yaml", "text", "text shown"].contains(&info);
                assert!(known, "{page}:{}: a block of the kind \"{info}\"", block.line);
            }
        }
    }
}
