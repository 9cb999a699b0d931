//! Completions for fish.

use std::fmt::Write as _;

use lh_cli::flags::{Flag, Program};
use lh_config::Keyword;
use lh_config::client_table::CLIENT_KEYWORDS;
use lh_config::server_table::SERVER_KEYWORDS;

use super::values::{Operands, Setting, Values, of_flag, operands, settings};

/// Completes `HOST:PATH` by a command on that host, as fish does for scp.
const REMOTE: &str = r#"function __lhscp_remote
    set -l parts (commandline -ct | string split -m 1 :)
    set -l connect
    set -l port (commandline -c | string match -r -- ' -P ?([0-9]+)\\b')
    and set -a connect -p $port[2]
    set -l config (commandline -c | string match -r -- ' -F ?(\\S+)')
    and set -a connect -F $config[2]
    set -l key (commandline -c | string match -r -- ' -i ?(\\S+)')
    and set -a connect -i $key[2]
    set -l path (string unescape -- $parts[2] | string replace -ra '([^A-Za-z0-9_./~-])' '\\\\$1')
    lhssh -o BatchMode=yes -o ConnectTimeout=5 $connect $parts[1] "command ls -dpL -- $path*" 2>/dev/null </dev/null |
        string replace -r '^' "$parts[1]:"
end
complete -c lhscp -f -n 'string match -qr -- "^[^/:][^/]*:" (commandline -ct)' -a '(__lhscp_remote)' -d 'Remote file'
"#;

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
        Operands::FilesAndHosts => {
            out.push_str(REMOTE);
            " -n 'not string match -q -- \"*:*\" (commandline -ct)' -a '(__fish_print_hostnames):'"
        }
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
