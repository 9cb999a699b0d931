//! Completions for zsh.

use std::fmt::Write as _;

use lh_cli::flags::Program;
use lh_config::Keyword;
use lh_config::client_table::CLIENT_KEYWORDS;
use lh_config::server_table::SERVER_KEYWORDS;

use super::values::{Operands, Setting, Values, of_flag, operands, pattern, settings};

/// Completes a local file, a host and its colon, or a file on a host, as zsh does for scp.
const OPERAND: &str = r"_lh_file() {
    if compset -P 1 '[^./][^/]#:'; then
        _remote_files -- lhssh -o BatchMode=yes -o ConnectTimeout=5 ${(kv)~opt_args[(I)-[FP46iJ]]/-P/-p}
    else
        _files
        _hosts -S:
    fi
}

";

/// Returns the completion of one program.
pub(super) fn completion(program: &Program) -> String {
    let mut out = format!("#compdef {}\n# generated\n\n", program.name);
    for values in program.shown().filter(|flag| flag.value.is_some()).map(|flag| of_flag(program, flag)) {
        match values {
            Values::ClientKeyword => out.push_str(&settings_function(CLIENT_KEYWORDS)),
            Values::ServerKeyword => out.push_str(&settings_function(SERVER_KEYWORDS)),
            _ => {}
        }
    }
    if operands(program) == Operands::FilesAndHosts {
        out.push_str(OPERAND);
    }
    out.push_str("_arguments -s -S \\\n");
    for flag in program.shown() {
        let help = escape(flag.help);
        let (plus, value) = match flag.value {
            None => ("", String::new()),
            Some(value) => ("+", format!(":{}:{}", escape(value), action(of_flag(program, flag)))),
        };
        let plus = if flag.has_letter() { plus } else { plus.trim_end_matches('+') };
        let equals = if flag.has_letter() || flag.value.is_none() { "" } else { "=" };
        // Every flag may be repeated: -v counts, -o and -i accumulate.
        let _ = writeln!(out, "    '*{}{plus}{equals}[{help}]{value}' \\", flag.spelled());
    }
    out.push_str("    '(- *)--help[Show the flags.]' \\\n    '(- *)--version[Show the version.]' \\\n");
    out.push_str(match operands(program) {
        Operands::HostThenCommand => "    '1:host:_hosts' \\\n    '*::command:_normal'\n",
        Operands::FilesAndHosts => "    '*:file:_lh_file'\n",
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
        Values::ClientKeyword | Values::ServerKeyword => "_lh_setting".to_owned(),
        Values::Words(list) => format!("({})", list.join(" ")),
        Values::Anything => " ".to_owned(),
    }
}

/// Returns the function that completes `KEYWORD=VALUE`.
fn settings_function(table: &'static [Keyword]) -> String {
    let names: Vec<String> = table.iter().map(|keyword| format!("{}=", keyword.name)).collect();
    let mut out = format!(
        "_lh_setting() {{\n\
         \x20   if ! compset -P 1 '*='; then\n\
         \x20       compadd -S '' -- {}\n\
         \x20       return\n\
         \x20   fi\n\
         \x20   case ${{(L)${{${{IPREFIX%=}}#-o}}}} in\n",
        names.join(" ")
    );
    for (setting, names) in settings(table) {
        let action = match &setting {
            Setting::Words(list) => format!("compadd -- {}", list.join(" ")),
            Setting::Query(name) => format!("compadd -- ${{(f)\"$(lhssh -Q {name} 2>/dev/null)\"}}"),
            Setting::File => "_files".to_owned(),
        };
        let _ = writeln!(out, "        {}) {action} ;;", pattern(&names));
    }
    out.push_str("    esac\n}\n\n");
    out
}

/// Escapes quotes, brackets and colons, which end a part of zsh's specification.
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
