//! Tests that the programs accept the command lines which the pages show, also those that no test runs.

use std::ffi::OsString;
use std::fs;

use lh_cli::flags::{PROGRAMS, Program};

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

/// Returns the code of a page: its indented lines and those of fenced blocks, each with the number of its
/// line. A line that ends with a backslash is continued.
fn code(page: &str) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    let (mut is_fenced, mut is_continued) = (false, false);
    for (at, line) in page.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            is_fenced = !is_fenced;
            continue;
        }
        let Some(text) = line.strip_prefix("    ").or(is_fenced.then_some(line)) else { continue };
        let (text, continues) =
            text.trim().strip_suffix('\\').map_or((text.trim(), false), |text| (text, true));
        match found.last_mut().filter(|_| is_continued) {
            Some((_, before)) => before.push_str(text),
            None => found.push((at + 1, text.to_owned())),
        }
        is_continued = continues;
    }
    found
}

/// Returns a program's complaint about the arguments of a command.
fn complaint(program: &Program, arguments: &[String]) -> Option<String> {
    let arguments = arguments.iter().map(OsString::from);
    let parsed =
        if program.name == "longhaul" { program.parse_anywhere(arguments) } else { program.parse(arguments) };
    parsed.err().filter(|stop| stop.status != 0).map(|stop| stop.err)
}

#[test]
fn programs_accept_the_commands_of_the_pages() {
    let docs = fs::read_dir(root().join("docs")).unwrap().flatten().map(|entry| entry.path());
    let pages = docs.filter(|path| path.extension().is_some_and(|extension| extension == "md"));
    let mut seen = 0;
    for path in pages.chain([root().join("README.md")]) {
        for (line, text) in code(&fs::read_to_string(&path).unwrap()) {
            for words in commands(&text) {
                let mut words = words.into_iter().skip_while(|word| word.contains('='));
                let Some(name) = words.next() else { continue };
                let Some(program) = PROGRAMS.iter().find(|program| program.name == name) else { continue };
                let complaint = complaint(program, &words.collect::<Vec<_>>());
                assert_eq!(complaint, None, "{}:{line}: {text}", path.display());
                seen += 1;
            }
        }
    }
    assert!(seen > 120, "only {seen} commands found");
}

#[test]
fn lines_are_split_as_a_shell_does() {
    let split = commands("A=1 lhssh -p 22 'a b;c' \"d\"e | jq '.x' > f && g  # h");
    assert_eq!(
        split.iter().filter(|words| !words.is_empty()).map(|words| words.join("/")).collect::<Vec<_>>(),
        ["A=1/lhssh/-p/22/a b;c/de", "jq/.x", "f", "g"]
    );
    let page = "text\n\n    lhscp a \\\n        b\n\n```sh\nlhssh x\n```\n";
    assert_eq!(code(page), [(3, "lhscp a b".to_owned()), (7, "lhssh x".to_owned())]);
    let scp = PROGRAMS.iter().find(|program| program.name == "lhscp").unwrap();
    assert!(complaint(scp, &["--nonsense".to_owned()]).is_some());
}
