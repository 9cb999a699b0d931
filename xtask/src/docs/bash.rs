//! Completions for bash.

use std::fmt::Write as _;

use lh_cli::flags::{Flag, Program};
use lh_config::Keyword;
use lh_config::client_table::CLIENT_KEYWORDS;
use lh_config::server_table::SERVER_KEYWORDS;

use super::values::{Operands, Setting, Values, of_flag, operands, pattern, settings};

/// Shell code that prints the hosts in the user's files. Patterns and hashed names cannot be completed.
const HOSTS: &str = r#"    {
        sed -n 's/^[[:space:]]*[Hh]ost[[:space:]=]\{1,\}//p' ~/.ssh/config /etc/ssh/ssh_config | tr ' \t' '\n\n'
        sed -e '/^[|@#]/d' -e 's/[[:space:]].*//' -e 's/,/\n/g' ~/.ssh/known_hosts | sed 's/^\[\(.*\)\]:.*/\1/'
    } 2>/dev/null | grep -v '[*?!|]'
"#;

/// Shell code that completes `HOST:PATH` by a command on that host, as bash's completion of scp does. It uses
/// `cur` and `typed` of its caller.
const REMOTE: &str = r#"    local host=${cur%%:*} path=${cur#*:} pattern name
    local -a connect=()
    for ((i = 1; i < ${#typed[@]} - 1; i++)); do
        case ${typed[i]} in
            -P) connect+=(-p "${typed[i + 1]}") ;;
            -P?*) connect+=("-p${typed[i]:2}") ;;
            -[FiJo]) connect+=("${typed[i]}" "${typed[i + 1]}") ;;
            -[FiJo]?* | -4 | -6) connect+=("${typed[i]}") ;;
        esac
    done
    host=${host#[\'\"]} path=${path//\\/}
    printf -v pattern %q "$path"
    [[ $path == '~'* ]] && pattern=${pattern#\\}
    compopt +o filenames 2>/dev/null
    while IFS= read -r name; do
        printf -v name %q "$name"
        COMPREPLY+=("$host:$name")
    done < <(lhssh -o BatchMode=yes -o ConnectTimeout=5 "${connect[@]}" "$host" \
        "command ls -dpL -- $pattern*" </dev/null 2>/dev/null)
    # Bash replaces only what is behind the last character that splits words.
    word=$cur
    for name in = :; do
        [[ $COMP_WORDBREAKS == *$name* ]] && word=${word##*"$name"}
    done
    prefix=${cur%"$word"}
    COMPREPLY=("${COMPREPLY[@]#"$prefix"}")
    prefix=''
"#;

/// Returns the completion of one program; it needs only bash itself.
pub(super) fn completion(program: &Program) -> String {
    let function = program.name.replace('-', "_");
    let mut out = format!("# bash completion for {} (generated)\n\n", program.name);
    let _ = write!(out, "_{function}_hosts() {{\n{HOSTS}}}\n\n");
    if let Some(table) = table(program) {
        out.push_str(&settings_function(&function, table));
    }
    if operands(program) == Operands::FilesAndHosts {
        let _ = write!(out, "_{function}_remote() {{\n{REMOTE}}}\n\n");
    }
    let _ = write!(
        out,
        "_{function}() {{\n\
         \x20   local cur word i gap rest=$COMP_LINE operands=0 takes='{}' long=' {} '\n\
         \x20   local flag='' prefix=''\n\
         \x20   local -a typed=()\n\
         \x20   COMPREPLY=()\n",
        program
            .shown()
            .filter(|flag| flag.value.is_some() && flag.has_letter())
            .map(|flag| flag.short)
            .collect::<String>(),
        program
            .shown()
            .filter(|flag| flag.value.is_some())
            .filter_map(|flag| flag.long)
            .collect::<Vec<_>>()
            .join(" ")
    );
    // Finds the flag to which the word under the cursor belongs, and the number of operands before it.
    out.push_str(
        r#"    # Bash splits words at equals signs and colons too. Those without a blank between them are put together.
    for ((i = 0; i <= COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        gap=${rest%%[![:blank:]]*} rest=${rest#"${rest%%[![:blank:]]*}"} rest=${rest#"$word"}
        if [[ $i -gt 0 && -z $gap && -n $word ]]; then
            typed[${#typed[@]} - 1]+=$word
        else
            typed+=("$word")
        fi
    done
    cur=${typed[${#typed[@]} - 1]}
    for ((i = 1; i < ${#typed[@]} - 1; i++)); do
        word=${typed[i]}
        if [[ -n $flag ]]; then
            flag=''
        elif [[ $word == --* ]]; then
            [[ $word != *=* && $long == *" ${word:2} "* ]] && flag=${word:2}
        elif [[ $word == -?* ]]; then
            # In a cluster only the last flag can have its value in the next word.
            while word=${word:1}; [[ -n $word ]]; do
                if [[ $takes == *"${word:0:1}"* ]]; then
                    [[ ${#word} -eq 1 ]] && flag=${word:0:1}
                    break
                fi
            done
        else
            ((operands++))
        fi
    done
    if [[ -z $flag && $cur == -[!-]* ]]; then
        word=${cur:1:1}
        if [[ ${#cur} -gt 2 && $takes == *"$word"* ]]; then
            flag=$word prefix=${cur:0:2} cur=${cur:2}
        fi
    elif [[ -z $flag && $cur == --*=* ]]; then
        flag=${cur%%=*} flag=${flag:2} prefix=${cur%%=*}= cur=${cur#*=}
        [[ $COMP_WORDBREAKS == *=* ]] && prefix=''
    fi
    case $flag in
"#,
    );
    for flag in program.shown().filter(|flag| flag.value.is_some()) {
        let spelled = flag.spelled();
        let spelled = spelled.trim_start_matches('-');
        let reply = match of_flag(program, flag) {
            Values::ClientKeyword | Values::ServerKeyword => {
                let _ = writeln!(out, "        {spelled}) _{function}_setting ;;");
                continue;
            }
            Values::File => "$(compgen -f -- \"$cur\")".to_owned(),
            Values::Directory => "$(compgen -d -- \"$cur\")".to_owned(),
            Values::User => "$(compgen -u -- \"$cur\")".to_owned(),
            Values::Interface => words("$(ls /sys/class/net 2>/dev/null)"),
            Values::Host => words(&format!("$(_{function}_hosts)")),
            Values::Query(name) => words(&format!("$(lhssh -Q {name} 2>/dev/null)")),
            Values::Words(list) => words(&list.join(" ")),
            Values::Anything => continue,
        };
        let _ = writeln!(out, "        {spelled}) COMPREPLY=({reply}) ;;");
    }
    let flags: Vec<String> = program.shown().map(Flag::spelled).collect();
    let _ = write!(
        out,
        "        '')\n\
         \x20           if [[ $cur == -* ]]; then\n\
         \x20               COMPREPLY=({})\n\
         \x20           else\n\
         {}\
         \x20           fi\n\
         \x20           ;;\n\
         \x20   esac\n",
        words(&format!("{} --help --version", flags.join(" "))),
        operand_lines(program, &function),
    );
    out.push_str(
        "    if [[ -n $prefix ]]; then\n\
         \x20       COMPREPLY=(\"${COMPREPLY[@]/#/$prefix}\")\n\
         \x20   fi\n\
         \x20   # A keyword goes on behind its equals sign, a host behind its colon, a directory behind its slash.\n\
         \x20   if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *[=:/] ]]; then\n\
         \x20       compopt -o nospace 2>/dev/null\n\
         \x20       # As a file's name, a host would get a backslash before its colon.\n\
         \x20       [[ ${COMPREPLY[0]} == *: ]] && compopt +o filenames 2>/dev/null\n\
         \x20   fi\n\
         }\n\n",
    );
    let _ = writeln!(out, "complete -o filenames -F _{function} {}", program.name);
    out
}

/// Returns the keywords that `-o` of `program` takes.
fn table(program: &Program) -> Option<&'static [Keyword]> {
    program.shown().filter(|flag| flag.value.is_some()).find_map(|flag| match of_flag(program, flag) {
        Values::ClientKeyword => Some(CLIENT_KEYWORDS),
        Values::ServerKeyword => Some(SERVER_KEYWORDS),
        _ => None,
    })
}

/// Returns the function that completes `KEYWORD=VALUE`. It uses `cur` and `prefix` of its caller.
fn settings_function(function: &str, table: &'static [Keyword]) -> String {
    let mut out = format!(
        "_{function}_setting() {{\n\
         \x20   local value=${{cur#*=}}\n\
         \x20   if [[ $cur != *=* ]]; then\n\
         \x20       COMPREPLY=({})\n\
         \x20       return\n\
         \x20   fi\n\
         \x20   case $(printf '%s' \"${{cur%%=*}}\" | tr '[:upper:]' '[:lower:]') in\n",
        words(&keywords(table))
    );
    for (setting, names) in settings(table) {
        let reply = match &setting {
            Setting::Words(list) => format!("compgen -W \"{}\"", list.join(" ")),
            Setting::Query(name) => format!("compgen -W \"$(lhssh -Q {name} 2>/dev/null)\""),
            Setting::File => "compgen -f".to_owned(),
        };
        let _ = writeln!(out, "        {}) COMPREPLY=($({reply} -- \"$value\")) ;;", pattern(&names));
    }
    out.push_str(
        "    esac\n\
         \x20   # Where equals signs split words, bash replaces only what is behind the last one.\n\
         \x20   if [[ $COMP_WORDBREAKS == *=* ]]; then\n\
         \x20       prefix=''\n\
         \x20   else\n\
         \x20       COMPREPLY=(\"${COMPREPLY[@]/#/${cur%%=*}=}\")\n\
         \x20   fi\n\
         }\n\n",
    );
    out
}

fn operand_lines(program: &Program, function: &str) -> String {
    let hosts = words(&format!("$(_{function}_hosts)"));
    let line = |text: &str| format!("                {text}\n");
    match operands(program) {
        Operands::HostThenCommand => {
            line("if ((operands == 0)); then")
                + &line("    local user=''; [[ $cur == *@* ]] && user=${cur%@*}@ && cur=${cur##*@}")
                + &line(&format!("    COMPREPLY=({hosts}); COMPREPLY=(\"${{COMPREPLY[@]/#/$user}}\")"))
                + &line("else")
                + &line("    COMPREPLY=($(compgen -c -- \"$cur\"))")
                + &line("fi")
        }
        Operands::FilesAndHosts => {
            line("# A path with a slash before the colon is a local one.")
                + &line("if [[ $cur == [!/:]*:* && ${cur%%:*} != */* ]]; then")
                + &line(&format!("    _{function}_remote"))
                + &line("else")
                + &line("    COMPREPLY=($(compgen -f -- \"$cur\"))")
                + &line(&format!("    COMPREPLY+=($(compgen -S : -W \"$(_{function}_hosts)\" -- \"$cur\"))"))
                + &line("fi")
        }
        Operands::Hosts => line(&format!("COMPREPLY=({hosts})")),
        Operands::Files => line("COMPREPLY=($(compgen -f -- \"$cur\"))"),
        Operands::Nothing => line(":"),
    }
}

fn words(list: &str) -> String {
    format!("$(compgen -W \"{list}\" -- \"$cur\")")
}

fn keywords(table: &[Keyword]) -> String {
    let names: Vec<String> = table.iter().map(|keyword| format!("{}=", keyword.name)).collect();
    names.join(" ")
}
