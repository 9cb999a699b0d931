//! Tests that the programs accept the command lines which the pages show, also those that no test runs.

use std::ffi::OsString;
use std::fs;

use lh_cli::flags::{PROGRAMS, Program};
use lh_interop::shown::code;

use crate::workspace::root;

/// Splits a shell line into commands, each into words without their quotes. Comments and redirections are
/// left out.
fn commands(line: &str) -> Vec<Vec<String>> {
    let mut all = vec![Vec::new()];
    let (mut word, mut quote) = (None::<String>, None);
    let mut rest = line.chars();
    while let Some(char) = rest.next() {
        match (char, quote) {
            (_, Some(open)) if char == open => quote = None,
            (_, Some(_)) => word.get_or_insert_default().push(char),
            ('\'' | '"', None) => {
                quote = Some(char);
                word.get_or_insert_default();
            }
            ('\\', None) => word.get_or_insert_default().extend(rest.next()),
            ('#', None) if word.is_none() => break,
            (' ', None) => all.last_mut().into_iter().for_each(|words| words.extend(word.take())),
            ('|' | '&' | ';' | '(' | ')' | '<' | '>' | '`', None) => {
                all.last_mut().into_iter().for_each(|words| words.extend(word.take()));
                all.push(Vec::new());
            }
            _ => word.get_or_insert_default().push(char),
        }
    }
    all.last_mut().into_iter().for_each(|words| words.extend(word.take()));
    all
}

/// Returns the commands of a page's blocks, each with the number of its line.
fn shown(page: &str) -> Vec<(usize, String)> {
    let blocks = code(page);
    let found = blocks.iter().flat_map(|block| block.commands());
    found.map(|command| (command.line, command.text.replace("\\\n", " "))).collect()
}

/// Returns a program's complaint about the arguments of a command.
fn complaint(program: &Program, arguments: &[String]) -> Option<String> {
    let arguments = arguments.iter().map(OsString::from);
    let parsed =
        if program.name == "longhaul" { program.parse_anywhere(arguments) } else { program.parse(arguments) };
    parsed.err().filter(|stop| stop.status != 0).map(|stop| stop.err)
}

/// Returns the words of all commands of the pages, each with its page and line.
fn all() -> Vec<(String, Vec<String>)> {
    let mut pages: Vec<_> =
        ["README.md", "CONTRIBUTING.md", "RELEASING.md"].map(|name| root().join(name)).into();
    for directory in ["docs", "docs/lab"] {
        let entries = fs::read_dir(root().join(directory)).unwrap().flatten().map(|entry| entry.path());
        pages.extend(entries.filter(|path| path.extension().is_some_and(|extension| extension == "md")));
    }
    let mut found = Vec::new();
    for path in pages {
        for (line, text) in shown(&fs::read_to_string(&path).unwrap()) {
            for words in text.lines().flat_map(commands) {
                let words: Vec<String> = words.into_iter().skip_while(|word| word.contains('=')).collect();
                found.push((format!("{}:{line}: {text}", path.display()), words));
            }
        }
    }
    found
}

#[test]
fn programs_accept_the_commands_of_the_pages() {
    let mut seen = 0;
    for (place, words) in all() {
        let Some((name, arguments)) = words.split_first() else { continue };
        let Some(program) = PROGRAMS.iter().find(|program| program.name == name) else { continue };
        // A message has a colon behind the program's name.
        if arguments.first().is_some_and(|word| word.ends_with(':')) {
            continue;
        }
        assert_eq!(complaint(program, arguments), None, "{place}");
        seen += 1;
    }
    assert!(seen > 120, "only {seen} commands found");
}

/// Returns what the help of a development command says.
fn help(name: &str) -> String {
    let own: Vec<&str> = crate::USAGE
        .lines()
        .skip_while(|line| line.strip_prefix("  ").and_then(|line| line.split(' ').next()) != Some(name))
        .enumerate()
        .take_while(|(at, line)| *at == 0 || line.starts_with("    "))
        .map(|(_, line)| line)
        .collect();
    let more = match name {
        "bench" => fs::read_to_string(root().join("bench/src/args.rs")).unwrap(),
        "wan" => crate::wan::USAGE.to_owned(),
        _ => String::new(),
    };
    own.join("\n") + &more
}

#[test]
fn development_commands_of_the_pages_exist() {
    let is_in = |help: &str, word: &str| {
        help.split(|char: char| !(char.is_alphanumeric() || char == '-')).any(|each| each == word)
    };
    let mut seen = 0;
    for (place, words) in all() {
        let [cargo, xtask, name, arguments @ ..] = &words[..] else { continue };
        if cargo != "cargo" || xtask != "xtask" {
            continue;
        }
        let help = help(name);
        assert!(!help.is_empty(), "{place}: there is no cargo xtask {name}");
        // What follows is a command of its own.
        let arguments = arguments.split(|word| word == "--").next().unwrap_or_default();
        for (at, flag) in arguments.iter().enumerate().filter(|(_, word)| word.starts_with("--")) {
            assert!(is_in(&help, flag), "{place}: cargo xtask {name} has no {flag}");
            let value = arguments.get(at + 1).filter(|_| flag == "--scenario");
            for scenario in value.into_iter().flat_map(|names| names.split(',')) {
                assert!(is_in(&help, scenario), "{place}: there is no scenario {scenario}");
            }
        }
        seen += 1;
    }
    assert!(seen > 50, "only {seen} commands found");
    assert!(is_in(&help("wan"), "--rtt") && !is_in(&help("wan"), "--rt") && help("nonsense").is_empty());
}

#[test]
fn lines_are_split_as_a_shell_does() {
    let split = commands("A=1 lhssh -p 22 'a b;c' \"d\"e | jq '.x' > f && g  # h");
    assert_eq!(
        split.iter().filter(|words| !words.is_empty()).map(|words| words.join("/")).collect::<Vec<_>>(),
        ["A=1/lhssh/-p/22/a b;c/de", "jq/.x", "f", "g"]
    );
    let scp = PROGRAMS.iter().find(|program| program.name == "lhscp").unwrap();
    assert!(complaint(scp, &["--nonsense".to_owned()]).is_some());
}
