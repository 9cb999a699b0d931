//! Runs the commands of the documentation's pages as they are written.
//!
//! Each code block marked `sh runnable` is run by `sh -eu`, all blocks of a page in order, in one directory
//! with the files that the pages mention (`results`, `big.h5`). `server`, `gateway` and `inside` are a host
//! in the clients' configuration, `/data` a directory of the test, `/scratch` the one with the files, and
//! port 2222 a free port. A block with `needs=PROGRAM` is skipped, with a message, where the program is not
//! installed; `needs=sbatch` means a Slurm cluster, which is started for the block.
//!
//! Shown output must be true: a comment `# says "TEXT"` promises TEXT, and a block marked `text shown` has
//! what the block of commands before it prints to standard output. There a line `...` stands for any lines,
//! and `…` in a line for any text.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use lh_interop::recipe::{RECIPE, Recipe};
use lh_interop::tunnel::free_port;
use lh_interop::{
    Lab, Lhsshd, assert_same_tree, bin_dir, eventually, find, is_root, make_blob, me, our, skip,
};

/// A code block: the program it needs, its first line's number, its commands, and the output that the page
/// shows.
struct Block {
    needs: Option<String>,
    line: usize,
    commands: String,
    shown: Option<String>,
}

impl Block {
    /// Returns what the page promises and the commands did not print.
    fn unkept(&self, out: &str, err: &str) -> Vec<String> {
        let said = self.commands.lines().filter_map(|line| line.split_once("# says \"")?.1.split('"').next());
        let mut unkept: Vec<_> =
            said.filter(|text| !out.contains(text) && !err.contains(text)).map(str::to_owned).collect();
        if let Some(shown) = self.shown.as_ref().filter(|shown| !lines_fit(&lines(shown), &lines(out))) {
            unkept.push(shown.clone());
        }
        unkept
    }
}

/// Returns the lines without spaces at their ends.
fn lines(text: &str) -> Vec<&str> {
    text.trim_end().lines().map(str::trim_end).collect()
}

/// Returns whether the printed lines are the shown ones, of which `...` stands for any.
fn lines_fit(shown: &[&str], printed: &[&str]) -> bool {
    match (shown, printed) {
        ([], _) => printed.is_empty(),
        (["...", rest @ ..], _) => (0..=printed.len()).any(|skipped| lines_fit(rest, &printed[skipped..])),
        ([shown, rest @ ..], [line, others @ ..]) => line_fits(shown, line) && lines_fit(rest, others),
        (_, []) => false,
    }
}

/// Returns whether a printed line is the shown one, in which `…` stands for any text.
fn line_fits(shown: &str, printed: &str) -> bool {
    match shown.split_once('…') {
        None => shown == printed,
        Some((start, rest)) => printed.strip_prefix(start).is_some_and(|left| {
            (0..=left.len()).any(|at| left.is_char_boundary(at) && line_fits(rest, &left[at..]))
        }),
    }
}

fn blocks(page: &str) -> Vec<Block> {
    let mut found = Vec::new();
    let mut lines = page.lines().enumerate();
    while let Some((at, line)) = lines.next() {
        if line == "```text shown" {
            let body: Vec<_> =
                lines.by_ref().map(|(_, line)| line).take_while(|line| *line != "```").collect();
            let block: &mut Block = found.last_mut().expect("commands stand before their output");
            assert!(block.shown.replace(body.join("\n")).is_none(), "line {}: shown twice", at + 1);
            continue;
        }
        let Some(words) = line.strip_prefix("```sh runnable") else { continue };
        let needs = words.trim().strip_prefix("needs=").map(str::to_owned);
        let body = lines.by_ref().map(|(_, line)| line).take_while(|line| *line != "```");
        let commands = body.collect::<Vec<_>>().join("\n");
        found.push(Block { needs, line: at + 1, commands, shown: None });
    }
    found
}

/// Writes a wrapper that runs our program with the lab's configuration, as if it were the user's own.
fn wrap(lab: &Lab, name: &str) {
    let text = format!("#!/bin/sh\nexec {} -F {} \"$@\"\n", our(name).display(), lab.arg("config"));
    write_program(lab, name, &text);
}

fn write_program(lab: &Lab, name: &str, text: &str) {
    let path = lab.path(&format!("bin/{name}"));
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
}

fn prepare(lab: &Lab, server: &Lhsshd, free: u16) {
    for directory in ["bin", "work/results/raw", "data"] {
        fs::create_dir_all(lab.path(directory)).unwrap();
    }
    for name in ["lhssh", "lhscp", "lhsftp"] {
        wrap(lab, name);
    }
    // Of its commands one connects.
    let (longhaul, config) = (our("longhaul"), lab.arg("config"));
    let verify = format!("[ \"$1\" = verify ] && set -- \"$@\" -F {config}");
    write_program(lab, "longhaul", &format!("#!/bin/sh\n{verify}\nexec {} \"$@\"\n", longhaul.display()));
    for (file, text) in [("results/run1.csv", "a,b\n1,2\n"), ("results/x.tmp", "x"), ("run.csv", "c\n3\n")] {
        lab.write(&format!("work/{file}"), text);
    }
    make_blob(&lab.path("work/results/raw/a.bin"), 100_000);
    make_blob(&lab.path("work/big.h5"), 3_000_000);
    let keys = format!(
        "User {}\nIdentityFile {}\nUserKnownHostsFile {}\nStrictHostKeyChecking accept-new\nBatchMode yes\n",
        me(),
        lab.arg("user_ed25519"),
        lab.arg("home/.ssh/known_hosts")
    );
    let hosts = format!(
        "Host server gateway inside\n  HostName 127.0.0.1\n  Port {}\nHost *\n{keys}",
        server.port_arg()
    );
    lab.write("config", &hosts);
    // The server that the page starts would read the real account's file; a wrapper names the lab's.
    let lines = format!(
        "#!/bin/sh\nexec {} \"$@\" -o AuthorizedKeysFile={} -o StrictModes=no\n",
        our("lhsshd").display(),
        lab.arg("authorized_keys")
    );
    let path = lab.path("bin/lhsshd");
    fs::write(&path, lines).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    assert!(free != server.port);
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// A page's commands with the paths and ports of the test.
fn placed(lab: &Lab, commands: &str, free: u16) -> String {
    commands
        .replace("/data", &lab.arg("data"))
        .replace("/scratch", &lab.arg("work"))
        .replace("2222", &free.to_string())
        .replace("localhost:", "127.0.0.1:")
}

/// Why a block that needs this program cannot be run here.
fn lacking(program: &str) -> Option<String> {
    if program != "sbatch" {
        return find(program).is_none().then(|| format!("not installed: {program}"));
    }
    if !is_root() {
        return Some("Slurm's daemons on one machine need root".to_owned());
    }
    let missing = ["slurmctld", "slurmd", "munged", "sbatch"].into_iter().find(|name| find(name).is_none());
    missing.map(|name| format!("not installed: {name}"))
}

fn run_page(name: &str) {
    let page = fs::read_to_string(root().join(name)).unwrap();
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "");
    let free = free_port();
    prepare(&lab, &server, free);
    let path = format!("{}:{}:{}", lab.arg("bin"), bin_dir().display(), std::env::var("PATH").unwrap());
    let all = blocks(&page);
    assert!(!all.is_empty(), "{name} has no commands that can be run");
    for block in all {
        let Block { needs, line, commands, .. } = &block;
        if let Some(why) = needs.as_deref().and_then(lacking) {
            skip(&format!("{name}:{line}"), &why);
            continue;
        }
        let commands = placed(&lab, commands, free);
        let mut shell = Command::new("timeout");
        shell.args(["-k", "5", "600"]);
        if needs.as_deref() == Some("sbatch") {
            shell.arg(root().join("bench/slurm-cluster.sh"));
        }
        shell.args(["sh", "-euc", &commands]);
        shell.current_dir(lab.path("work")).env("HOME", lab.path("home")).env("PATH", &path);
        shell.env_remove("SSH_AUTH_SOCK").env_remove("XDG_STATE_HOME");
        let ran = shell.output().unwrap();
        // Stops a server that the page started but did not stop.
        if let Ok(pid) = fs::read_to_string(lab.path("home/longhaul.pid")) {
            let _ = Command::new("kill").arg(pid.trim()).status();
        }
        let (out, err) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
        assert!(ran.status.success(), "{name}:{line}: {}\n{commands}\n{out}{err}", ran.status);
        println!("{name}:{line}:\n{out}{err}");
        let unkept = block.unkept(&out.replace(&lab.arg("data"), "/data"), &err);
        assert!(unkept.is_empty(), "{name}:{line}: the page shows {unkept:#?}\nprinted:\n{out}{err}");
    }
}

#[test]
fn the_readme_can_be_followed() {
    run_page("README.md");
}

#[test]
fn the_quick_start_can_be_followed() {
    run_page("docs/quick-start.md");
}

#[test]
fn the_page_about_copying_can_be_followed() {
    run_page("docs/copying.md");
}

#[test]
fn the_page_about_many_files_can_be_followed() {
    run_page("docs/many-files.md");
}

#[test]
fn the_page_about_journals_can_be_followed() {
    run_page("docs/journals.md");
}

#[test]
fn the_page_about_schedulers_can_be_followed() {
    run_page("docs/schedulers.md");
}

/// The command of the Kubernetes Job, run as its eight pods would.
#[test]
fn the_job_of_kubernetes_copies_the_tree() {
    let page = fs::read_to_string(root().join("docs/schedulers.md")).unwrap();
    // `command: [lhscp, WORD, …]`, of which the words are plain or in double quotes.
    let list = page.lines().find_map(|line| line.trim().strip_prefix("command: [lhscp")).unwrap();
    let command = list.strip_suffix(']').unwrap().replace(',', " ");
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "");
    let free = free_port();
    prepare(&lab, &server, free);
    let command = placed(&lab, &format!("exec lhscp{command}"), free);
    let path = format!("{}:{}:{}", lab.arg("bin"), bin_dir().display(), std::env::var("PATH").unwrap());
    for index in 0..8 {
        let mut pod = Command::new("/bin/sh");
        pod.args(["-c", &command]).env("JOB_COMPLETION_INDEX", index.to_string());
        pod.env("HOME", lab.path("home")).env("PATH", &path).env_remove("SSH_AUTH_SOCK");
        let ran = pod.output().unwrap();
        assert!(ran.status.success(), "{index}: {}", String::from_utf8_lossy(&ran.stderr));
    }
    assert_same_tree(&lab.path("work/results"), &lab.path("data/results"));
}

#[test]
fn the_page_about_the_server_can_be_followed() {
    run_page("docs/server.md");
}

#[test]
fn the_page_about_keys_can_be_followed() {
    run_page("docs/keys.md");
}

#[test]
fn the_page_about_openid_can_be_followed() {
    run_page("docs/oidc.md");
}

/// Returns the indented lines of a page that begin with `start`.
fn indented<'a>(page: &'a str, start: &str) -> Vec<&'a str> {
    let found: Vec<_> = page
        .lines()
        .filter_map(|line| line.strip_prefix("    "))
        .filter(|line| line.starts_with(start))
        .collect();
    assert!(!found.is_empty(), "the page shows no line {start}…");
    found
}

/// The values of the shown lines are those of another host; the fields and their order are compared.
#[test]
fn lines_of_the_transfer_log_are_as_the_page_shows_them() {
    /// Returns the keys of `key=value …`, in which quoted values may have blanks.
    fn keys(line: &str) -> Vec<String> {
        let is_plain: Vec<&str> = line.split('"').step_by(2).collect();
        is_plain
            .join("")
            .split(' ')
            .filter_map(|field| field.split_once('=').map(|(key, _)| key.to_owned()))
            .collect()
    }
    let lab = Lab::new();
    let log = lab.arg("transfers");
    let server = Lhsshd::start(&lab, &format!("TransferLog {log}\nTransferLogOperations yes\n"));
    prepare(&lab, &server, free_port());
    lab.write("data/a", "text");
    let commands =
        "lhssh server 'uname -a' >/dev/null; echo 'rename /data/a /data/b' | lhsftp -q -b - server";
    let commands = commands.replace("/data", &lab.arg("data"));
    let path = format!("{}:{}", lab.arg("bin"), std::env::var("PATH").unwrap());
    let mut shell = Command::new("sh");
    shell.args(["-euc", &commands]).env("PATH", &path).env("HOME", lab.path("home"));
    assert!(shell.output().unwrap().status.success(), "{}", server.log());
    let printed = || fs::read_to_string(&log).unwrap_or_default();
    let page = fs::read_to_string(root().join("docs/server.md")).unwrap();
    for (event, what) in [("event=command ", "command="), ("event=operation ", "operation=posix-rename ")] {
        let of_kind = |line: &&str| line.contains(event) && line.contains(what);
        eventually("the line is in the log", || printed().lines().any(|line| of_kind(&line)));
        let text = printed();
        let line = text.lines().find(of_kind).unwrap();
        let shown = indented(&page, "2026-").into_iter().find(of_kind).unwrap();
        assert_eq!(keys(shown), keys(line), "{shown}\n{line}");
    }
}

#[test]
fn lines_of_a_manifest_are_as_the_page_shows_them() {
    fn members(line: &str) -> Vec<String> {
        let value: serde_json::Value = serde_json::from_str(line).unwrap();
        value.as_object().unwrap().keys().cloned().collect()
    }
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "");
    prepare(&lab, &server, free_port());
    let commands = "ln -s run1.csv results/latest; rm -r results/raw results/x.tmp
        lhscp -r --links --manifest-out manifest results server:/data/";
    let path = format!("{}:{}", lab.arg("bin"), std::env::var("PATH").unwrap());
    let mut shell = Command::new("sh");
    shell.args(["-euc", &commands.replace("/data", &lab.arg("data"))]).env("PATH", &path);
    let ran = shell.current_dir(lab.path("work")).env("HOME", lab.path("home")).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let page = fs::read_to_string(root().join("docs/json.md")).unwrap();
    let sorted = |lines: Vec<&str>| {
        let mut members: Vec<_> = lines.into_iter().map(members).collect();
        members.sort();
        members
    };
    let shown = [r#"{"longhaul_manifest""#, r#"{"path":"results/"#, r#"{"end":true,"files""#];
    let shown = sorted(shown.into_iter().flat_map(|start| indented(&page, start)).collect());
    let printed = fs::read_to_string(lab.path("work/manifest")).unwrap();
    assert_eq!(shown, sorted(printed.lines().collect()), "{printed}");
}

#[test]
fn the_page_about_pam_shows_the_error_of_a_missing_library() {
    let recipe = Recipe {
        look: r#"
rm $(ldconfig -p | awk '/libpam.so.0 / {print $NF}')
/opt/longhaul/lhsshd -t -o 'UsePAM yes'
"#,
        ..RECIPE
    };
    let Some((seen, _)) = recipe.run_ours() else { return };
    let page = fs::read_to_string(root().join("docs/pam.md")).unwrap();
    for line in indented(&page, "UsePAM: ") {
        assert!(seen.contains(line), "{line}\n{seen}");
    }
}

#[test]
fn blocks_end_where_their_fences_do() {
    let page = "a\n```sh runnable needs=jq\none\ntwo\n```\n```sh\nnot\n```\n```sh runnable\nthree\n```\n";
    let found = blocks(page);
    let seen: Vec<_> = found.iter().map(|b| (b.needs.as_deref(), b.line, b.commands.as_str())).collect();
    assert_eq!(seen, [(Some("jq"), 2, "one\ntwo"), (None, 9, "three")]);
}

#[test]
fn shown_output_is_compared() {
    let page =
        "```sh runnable\na   # says \"4 files\"\nb\n```\nprints\n```text shown\nx … z\n...\nend\n```\n";
    let block = blocks(page).remove(0);
    for out in ["x y z\nend\n", "x  z\n1\n2\nend \n"] {
        assert!(block.unkept(out, "has 4 files\n").is_empty(), "{out}");
    }
    for out in ["", "x y z\n", "x y\nend\n", "x y z\nend\nmore\n"] {
        assert_eq!(block.unkept(out, "4 files\n"), ["x … z\n...\nend"], "{out}");
    }
    assert_eq!(block.unkept("x y z\nend\n", ""), ["4 files"]);
}
