//! Completions for fish.

use std::fmt::Write as _;

use lh_cli::flags::{Flag, Program};
use lh_config::Keyword;
use lh_config::client_table::CLIENT_KEYWORDS;
use lh_config::server_table::SERVER_KEYWORDS;

use super::values::{Operands, Setting, Values, of_flag, operands, settings};

/// Returns the completion of one program.
pub(super) fn completion(program: &Program) -> String {
    let name = program.name;
    let mut out = format!("# fish completion for {name} (generated)\n");
    for flag in program.shown() {
        let help = quote(flag.help);
        let value = match flag.value {
            None => String::new(),
            Some(_) => action(of_flag(program, flag)),
        };
        let _ = writeln!(out, "complete -c {name} {}{value} -d {help}", named(flag));
    }
    for (long, help) in [("help", "Show the flags."), ("version", "Show the version.")] {
        let _ = writeln!(out, "complete -c {name} -l {long} -d {}", quote(help));
    }
    let rule = match operands(program) {
        Operands::HostThenCommand | Operands::Hosts => " -f -a '(__fish_print_hostnames)'",
        Operands::FilesAndHosts => " -a '(__fish_print_hostnames):'",
        Operands::Files => "",
        Operands::Nothing => " -f",
    };
    if !rule.is_empty() {
        let _ = writeln!(out, "complete -c {name}{rule}");
    }
    out
}

fn named(flag: &Flag) -> String {
    match flag.long {
        Some(long) if !flag.has_letter() => format!("-l {long}"),
        _ => format!("-s {}", flag.short),
    }
}

fn action(values: Values) -> String {
    let list = |text: &str| format!(" -x -a {}", quote(text));
    match values {
        Values::File => " -r -F".to_owned(),
        Values::Directory => " -x -a '(__fish_complete_directories)'".to_owned(),
        Values::Host => list("(__fish_print_hostnames)"),
        Values::User => list("(__fish_complete_users)"),
        Values::Interface => list("(__fish_print_interfaces)"),
        Values::Query(name) => list(&format!("(lhssh -Q {name} 2>/dev/null)")),
        Values::ClientKeyword => list(&keywords(CLIENT_KEYWORDS)),
        Values::ServerKeyword => list(&keywords(SERVER_KEYWORDS)),
        Values::Words(words) => list(&words.join(" ")),
        Values::Anything => " -x".to_owned(),
    }
}

/// Returns each keyword with its equals sign, and with each of its fixed values.
fn keywords(table: &'static [Keyword]) -> String {
    let mut words: Vec<String> = table.iter().map(|keyword| format!("{}=", keyword.name)).collect();
    for (setting, names) in settings(table) {
        for name in names {
            match &setting {
                Setting::Words(values) => words.extend(values.iter().map(|value| format!("{name}={value}"))),
                Setting::Query(query) => {
                    words.push(format!("(lhssh -Q {query} 2>/dev/null | string replace -r '^' '{name}=')"));
                }
                Setting::File => {}
            }
        }
    }
    words.join(" ")
}

fn quote(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"))
}
