//! Completions for zsh.

use std::fmt::Write as _;

use lh_cli::flags::Program;
use lh_config::Keyword;
use lh_config::client_table::CLIENT_KEYWORDS;
use lh_config::server_table::SERVER_KEYWORDS;

use super::values::{Operands, Values, of_flag, operands};

/// The completion of one program.
pub(super) fn completion(program: &Program) -> String {
    let mut out = format!("#compdef {}\n# generated\n\n_arguments -s -S \\\n", program.name);
    for flag in program.shown() {
        let help = escape(flag.help);
        let (plus, value) = match flag.value {
            None => ("", String::new()),
            Some(value) => ("+", format!(":{}:{}", escape(value), action(of_flag(program, flag)))),
        };
        let plus = if flag.has_letter() { plus } else { plus.trim_end_matches('+') };
        let equals = if flag.has_letter() || flag.value.is_none() { "" } else { "=" };
        // Every flag may be given again: -v counts, -o and -i add.
        let _ = writeln!(out, "    '*{}{plus}{equals}[{help}]{value}' \\", flag.spelled());
    }
    out.push_str("    '(- *)--help[Show the flags.]' \\\n    '(- *)--version[Show the version.]' \\\n");
    out.push_str(match operands(program) {
        Operands::HostThenCommand => "    '1:host:_hosts' \\\n    '*::command:_normal'\n",
        Operands::FilesAndHosts => "    '*:file:{ _files; _hosts -S: }'\n",
        Operands::Hosts => "    '*:host:_hosts'\n",
        Operands::Files => "    '*:file:_files'\n",
        Operands::Nothing => "    ':'\n",
    });
    out
}

fn action(values: Values) -> String {
    match values {
        Values::File => "_files".to_owned(),
        Values::Directory => "_files -/".to_owned(),
        Values::Host => "_hosts".to_owned(),
        Values::User => "_users".to_owned(),
        Values::Interface => "_net_interfaces".to_owned(),
        Values::Query(name) => format!("($(lhssh -Q {name} 2>/dev/null))"),
        Values::ClientKeyword => keywords(CLIENT_KEYWORDS),
        Values::ServerKeyword => keywords(SERVER_KEYWORDS),
        Values::Words(list) => format!("({})", list.join(" ")),
        Values::Anything => " ".to_owned(),
    }
}

fn keywords(table: &[Keyword]) -> String {
    let names: Vec<String> = table.iter().map(|keyword| format!("{}=", keyword.name)).collect();
    format!("{{ compadd -S \"\" -- {} }}", names.join(" "))
}

/// Quotes, brackets and colons end what they stand in.
fn escape(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '\'' => out.push_str("'\\''"),
            '[' | ']' | ':' | '\\' => {
                out.push('\\');
                out.push(c);
            }
            c => out.push(c),
        }
    }
    out
}
