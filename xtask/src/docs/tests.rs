use std::path::Path;
use std::process::Command;

use super::*;

/// Runs a program; reports it and returns `None` if the program is not installed.
fn run(program: &str, args: &[&str]) -> Option<std::process::Output> {
    match Command::new(program).args(args).output() {
        Ok(output) => Some(output),
        Err(_) => {
            lh_interop::skip_unavailable(program, "not installed, so it checks no page");
            None
        }
    }
}

fn written() -> (tempfile::TempDir, Vec<PathBuf>) {
    let directory = tempfile::tempdir().expect("a directory");
    let mut paths = Vec::new();
    for (name, text) in files() {
        let path = directory.path().join(name);
        write(&path, &text).expect("written");
        paths.push(path);
    }
    (directory, paths)
}

fn is_page(path: &Path) -> bool {
    path.components().any(|part| part.as_os_str() == "man")
}

#[test]
fn manual_pages_have_no_faults_that_roff_knows() {
    let (_directory, paths) = written();
    for path in paths.iter().filter(|path| is_page(path)) {
        let name = path.to_string_lossy();
        if let Some(done) = run("groff", &["-man", "-Tutf8", "-ww", "-z", &name]) {
            let said = String::from_utf8_lossy(&done.stderr);
            assert!(done.status.success() && said.is_empty(), "{name}: {said}");
        }
        if let Some(done) = run("mandoc", &["-Tlint", "-Wwarning", &name]) {
            let said = String::from_utf8_lossy(&done.stdout);
            assert!(done.status.success(), "{name}: {said}");
        }
    }
}

#[test]
fn manual_pages_name_every_flag_and_keyword() {
    let (_directory, paths) = written();
    let read = |name: &str| {
        let path = paths.iter().find(|path| path.ends_with(name)).expect("there");
        fs::read_to_string(path).expect("readable")
    };
    for program in PROGRAMS {
        let page = read(&format!("{}.{}", program.name, man::section(program.name)));
        for flag in program.shown() {
            let spelled = flag.spelled();
            let shown = spelled.replace('-', "\\-");
            assert!(page.contains(&format!("\n.BI {shown}")), "{} {spelled}", program.name);
        }
        for part in [
            "NAME",
            "SYNOPSIS",
            "DESCRIPTION",
            "OPTIONS",
            "\"EXIT STATUS\"",
            "FILES",
            "EXAMPLES",
            "\"SEE ALSO\"",
        ] {
            assert!(page.contains(&format!(".SH {part}\n")), "{}: {part}", program.name);
        }
    }
    for (page, table) in [
        ("lhssh_config.5", lh_config::client_table::CLIENT_KEYWORDS),
        ("lhsshd_config.5", lh_config::server_table::SERVER_KEYWORDS),
    ] {
        let page = read(page);
        for keyword in table {
            assert!(page.contains(&format!("\n.BI {} ", keyword.name)), "{}", keyword.name);
            let missing = [keyword.meaning(), keyword.default_in_words(), keyword.example().to_owned()];
            assert!(missing.iter().all(|text| !text.is_empty()), "{}: {missing:?}", keyword.name);
            assert!(page.contains(&man::text(keyword.example())), "{}: no example", keyword.name);
        }
    }
}

/// Returns the first words of `rows`, without placeholders of values: `ln`, `chgrp`. A row with commas gives
/// several.
fn heads(rows: &[(&'static str, &str)], cut: &[char]) -> Vec<&'static str> {
    let each = rows.iter().flat_map(|(name, _)| name.split(", "));
    each.filter_map(|name| name.split(cut).next()).collect()
}

#[test]
fn the_page_of_lhsftp_has_its_commands() {
    let mut told = heads(programs::client::COMMANDS, &[' ']);
    let known = lh_sftp_shell::command::COMMANDS.iter().filter(|entry| entry.help.is_some());
    let mut known: Vec<&str> = known.map(|entry| entry.name).collect();
    told.sort_unstable();
    known.sort_unstable();
    assert_eq!(told, known);
}

#[test]
fn the_page_of_lhssh_has_its_escapes() {
    let source =
        fs::read_to_string(crate::workspace::root().join("crates/client/src/escape.rs")).expect("readable");
    let help = source.lines().filter_map(|line| line.split("(\" {e}").nth(1)?.split(' ').next());
    let mut known: Vec<&str> =
        help.flat_map(|keys| keys.split('/')).map(|key| key.trim_end_matches('"')).collect();
    let told = heads(programs::client::ESCAPES, &[' ']);
    let mut told: Vec<&str> = told.iter().map(|escape| escape.get(1..).unwrap_or_default()).collect();
    known.iter_mut().filter(|key| **key == "{e}").for_each(|key| *key = "~");
    told.sort_unstable();
    known.sort_unstable();
    assert_eq!(told, known);
}

#[test]
fn the_page_of_lhsshd_has_the_options_of_keys() {
    let source = fs::read_to_string(crate::workspace::root().join("crates/server/src/key_options.rs"))
        .expect("readable");
    let code = source.split("mod tests").next().unwrap_or_default();
    let arms = code.lines().map(str::trim).filter(|line| line.starts_with('"') && line.contains("\" => "));
    let mut known: Vec<&str> = arms.filter_map(|line| line.split('"').nth(1)).collect();
    let mut told = heads(programs::server::KEY_OPTIONS, &['=']);
    told.retain(|name| !name.starts_with("no-") || *name == "no-touch-required");
    told.sort_unstable();
    known.sort_unstable();
    assert_eq!(told, known);
}

#[test]
fn files_in_the_pages_are_accepted() {
    use lh_config::{Account, Environment, ServerConfig, client};

    struct Nothing;
    impl Environment for Nothing {
        fn sha1(&self, _data: &[u8]) -> [u8; 20] {
            [0; 20]
        }
    }

    let server = Path::new("example");
    ServerConfig::from_text(server, pages::SERVER_EXAMPLE, &Nothing).expect("accepted");
    let home = PathBuf::from("/home/ada");
    let account = Account { name: "ada".to_owned(), uid: 1000, home, host_name: "here".to_owned() };
    let mut request = client::Request::new("archive", account);
    request.user_file = client::UserFile::Text(PathBuf::from("example"), pages::CLIENT_EXAMPLE.to_owned());
    let config = client::load(&request, &Nothing).expect("accepted");
    assert_eq!(config.tcp_congestion.as_deref(), Some("bbr"));
}

#[test]
fn shells_take_their_completions() {
    let (_directory, paths) = written();
    for (shell, args) in [("bash", &["-n"][..]), ("zsh", &["-n"]), ("fish", &["-n"])] {
        for path in paths.iter().filter(|path| path.components().any(|part| part.as_os_str() == shell)) {
            let name = path.to_string_lossy();
            let mut args = args.to_vec();
            args.push(&name);
            if let Some(done) = run(shell, &args) {
                let said = String::from_utf8_lossy(&done.stderr);
                assert!(done.status.success() && said.is_empty(), "{name}: {said}");
            }
        }
    }
}

/// Returns bash's completions for the last of `words`, in a home with a configuration and with a working
/// `lhssh -Q cipher`.
fn offers(program: &str, words: &[&str]) -> Vec<String> {
    offers_and_connections(program, words).0
}

/// The same, and the arguments of each `lhssh` that listed files of a host. An empty word follows a blank;
/// there is none beside `=` and `:`, which are words for bash.
fn offers_and_connections(program: &str, words: &[&str]) -> (Vec<String>, String) {
    let (directory, _) = written();
    let home = directory.path().join("home");
    for folder in [".ssh", "dir", "remote/data/sub dir"] {
        fs::create_dir_all(home.join(folder)).expect("a directory");
    }
    fs::write(home.join(".ssh/config"), "Host web1 web2 *.wild\n  User x\nHost=db\n").expect("written");
    let known =
        "[port.example]:2222,192.0.2.9 ssh-ed25519 AAAA\n|1|hash= ssh-ed25519 AAAA\n@revoked old ssh-rsa A\n";
    fs::write(home.join(".ssh/known_hosts"), known).expect("written");
    for file in ["file.txt", "remote/day one", "remote/dump", "remote/data/x=1"] {
        fs::write(home.join(file), "").expect("written");
    }
    let file = directory.path().join("completions/bash").join(program);
    let function = program.replace('-', "_");
    let script = format!(
        r#"cd ~; compopt() {{ :; }}
lhssh() {{
    case $1$2 in
        -Q[Cc]ipher*) printf '%s\n' aes128-gcm@openssh.com aes256-ctr ;;
        -oBatchMode=yes) echo "${{@:5:$#-5}}" >>~/connections; (cd remote && bash -c "${{@: -1}}") ;;
    esac
}}
. {}
COMP_WORDBREAKS=$' \t\n"\'><=;|&(:'; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
_{function}; printf '%s\n' "${{COMPREPLY[@]}}""#,
        file.display()
    );
    let mut line = program.to_owned();
    for (at, word) in words.iter().enumerate() {
        let is_part = ["=", ":"].contains(word) || at > 0 && ["=", ":"].contains(&words[at - 1]);
        line.push_str(if is_part && !word.is_empty() { "" } else { " " });
        line.push_str(word);
    }
    let mut arguments = vec![program];
    arguments.extend(words);
    let done = Command::new("bash")
        .args(["--norc", "-c", &script, "bash"])
        .args(arguments)
        .env("HOME", &home)
        .env("COMP_LINE", line)
        .output()
        .expect("bash runs");
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(said.is_empty(), "{words:?}: {said}");
    let mut offers: Vec<String> = String::from_utf8_lossy(&done.stdout)
        .lines()
        .filter(|line| !line.is_empty())
        .map(str::to_owned)
        .collect();
    offers.sort();
    (offers, fs::read_to_string(home.join("connections")).unwrap_or_default())
}

#[test]
fn bash_completes_files_of_hosts() {
    assert_eq!(offers("lhscp", &["web1", ":"]), ["data/", "day\\ one", "dump"]);
    assert_eq!(offers("lhscp", &["web1", ":", "da"]), ["data/", "day\\ one"]);
    assert_eq!(offers("lhscp", &["web1", ":", "day\\ o"]), ["day\\ one"]);
    let (found, connections) =
        offers_and_connections("lhscp", &["-P", "2200", "-ikey", "file.txt", "me@web1", ":", "data/"]);
    assert_eq!(found, ["data/sub\\ dir/", "data/x=1"]);
    assert_eq!(connections, "-p 2200 -ikey me@web1\n");
    assert_eq!(offers("lhscp", &["web1", ":", "data/x", "=", "1"]), ["1"], "behind the last split");
    // Behind a blank, and with a slash before the colon, the file is a local one.
    let (found, connections) = offers_and_connections("lhscp", &["web1", ":", ""]);
    assert!(found.contains(&"file.txt".to_owned()), "{found:?}");
    assert_eq!(connections, "");
    assert_eq!(offers_and_connections("lhscp", &["./a", ":", "b"]), (Vec::new(), String::new()));
}

#[test]
fn bash_completes_flags_hosts_values_and_files() {
    assert_eq!(offers("lhssh", &["we"]), ["web1", "web2"]);
    assert_eq!(offers("lhssh", &["-v", "-p", "22", "me@po"]), ["me@port.example"]);
    assert_eq!(offers("lhssh", &["-c", "aes1"]), ["aes128-gcm@openssh.com"]);
    assert_eq!(offers("lhssh", &["-vcaes2"]), Vec::<String>::new(), "a cluster is left alone");
    assert_eq!(offers("lhssh", &["-caes2"]), ["-caes256-ctr"]);
    assert_eq!(offers("lhssh", &["-o", "StrictHost"]), ["StrictHostKeyChecking="]);
    assert_eq!(offers("lhssh", &["-oStrictHost"]), ["-oStrictHostKeyChecking="]);
    assert_eq!(offers("lhssh", &["-i", "fi"]), ["file.txt"]);
    // Bash splits words at equals signs.
    assert_eq!(offers("lhssh", &["-o", "StrictHostKeyChecking", "=", "a"]), ["accept-new", "ask"]);
    assert_eq!(offers("lhsftp", &["-o", "batchmode", "="]), ["no", "yes"]);
    assert_eq!(offers("lhscp", &["-v", "-oControlMaster", "=", "auto"]), ["auto", "autoask"]);
    assert_eq!(offers("lhsftp", &["-o", "IdentityFile", "=", "fi"]), ["file.txt"]);
    assert_eq!(offers("lhssh", &["-o", "Ciphers", "=", "aes1"]), ["aes128-gcm@openssh.com"]);
    assert_eq!(offers("lhssh", &["-o", "BatchMode", "=", "yes", "we"]), ["web1", "web2"]);
    assert_eq!(offers("lhsshd", &["-o", "PermitRootLogin", "=", "pro"]), ["prohibit-password"]);
    assert_eq!(offers("lhsftp", &["-X", "n"]), ["nrequests="]);
    assert_eq!(offers("lhssh", &["-vi", "fi"]), ["file.txt"], "the value of a cluster's last flag");
    assert_eq!(offers("lhssh", &["-O", "ch"]), ["channels", "check"]);
    assert_eq!(offers("lhssh-keygen", &["-s", "ca", "-O", "force"]), ["force-command="]);
    assert_eq!(offers("lhssh-agent", &["-O", "no"]), ["no-restrict-websafe"]);
    assert!(offers("lhssh", &["-"]).contains(&"-L".to_owned()));
    assert!(offers("lhssh", &["web1", "tru"]).contains(&"true".to_owned()), "a command behind the host");
    assert_eq!(offers("lhscp", &["fi"]), ["file.txt"]);
    assert_eq!(offers("lhscp", &["file.txt", "d"]), ["db:", "dir"]);
    assert_eq!(offers("lhssh-keygen", &["-t", "ed"]), ["ed25519", "ed25519-sk"]);
    assert_eq!(offers("lhsshd", &["-o", "PermitRoot"]), ["PermitRootLogin="]);
}

#[test]
fn fish_completes_values_of_keywords() {
    let (directory, _) = written();
    let file = directory.path().join("completions/fish/lhsftp.fish");
    let script = format!("source {}; complete -C 'lhsftp -o StrictHostKeyChecking=a'", file.display());
    let Some(done) = run("fish", &["--no-config", "-c", &script]) else { return };
    let offers = String::from_utf8_lossy(&done.stdout).into_owned();
    let offers: Vec<&str> = offers.lines().filter_map(|line| line.split('\t').next()).collect();
    assert_eq!(offers, ["StrictHostKeyChecking=accept-new", "StrictHostKeyChecking=ask"]);
}

#[test]
fn fish_completes_files_of_hosts() {
    let (directory, _) = written();
    let home = directory.path();
    fs::create_dir_all(home.join("remote/data")).expect("a directory");
    fs::write(home.join("remote/day one"), "").expect("written");
    let file = home.join("completions/fish/lhscp.fish");
    let script = format!(
        "cd {}/remote; function lhssh; echo $argv[5..-2] >>../connections; bash -c $argv[-1]; end\n\
         source {}; complete -C 'lhscp -P 2200 a me@web1:da'",
        home.display(),
        file.display()
    );
    let Some(done) = run("fish", &["--no-config", "-c", &script]) else { return };
    let offers = String::from_utf8_lossy(&done.stdout).into_owned();
    let mut offers: Vec<&str> = offers.lines().filter_map(|line| line.split('\t').next()).collect();
    offers.sort_unstable();
    assert_eq!(offers, ["me@web1:data/", "me@web1:day one"]);
    assert_eq!(fs::read_to_string(home.join("connections")).expect("it asked"), "-p 2200 me@web1\n");
}
