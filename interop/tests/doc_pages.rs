//! Runs the commands of the documentation's pages as they are written.
//!
//! Each [block](lh_interop::pages) is run by `sh -eu`, all blocks of a page in order, in one directory with
//! the files that the pages mention (`results`, `big.h5`). `server`, `gateway` and `inside` are a host in the
//! clients' configuration, `/data` a directory of the test, and `/scratch` the one with the files. A block
//! with `needs=PROGRAM` is skipped, with a message, where the program is not installed; `needs=sbatch` means
//! a Slurm cluster, which is started for the block. Pages for a new machine are in `doc_first_steps.rs`.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use lh_interop::pages::{Block, blocks};
use lh_interop::recipe::{RECIPE, Recipe};
use lh_interop::{
    Lab, Lhsshd, assert_same_tree, bin_dir, eventually, find, is_root, make_blob, me, our, skip,
};

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

fn prepare(lab: &Lab, server: &Lhsshd) {
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
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// A page's commands with the paths of the test.
fn placed(lab: &Lab, commands: &str) -> String {
    commands.replace("/data", &lab.arg("data")).replace("/scratch", &lab.arg("work"))
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
    prepare(&lab, &server);
    let path = format!("{}:{}:{}", lab.arg("bin"), bin_dir().display(), std::env::var("PATH").unwrap());
    let all = blocks(&page);
    assert!(!all.is_empty(), "{name} has no commands that can be run");
    for block in all {
        let Block { needs, line, commands, .. } = &block;
        if let Some(why) = needs.as_deref().and_then(lacking) {
            skip(&format!("{name}:{line}"), &why);
            continue;
        }
        let commands = placed(&lab, commands);
        let mut shell = Command::new("timeout");
        shell.args(["-k", "5", "600"]);
        if needs.as_deref() == Some("sbatch") {
            shell.arg(root().join("bench/slurm-cluster.sh"));
        }
        shell.args(["sh", "-euc", &commands]);
        shell.current_dir(lab.path("work")).env("HOME", lab.path("home")).env("PATH", &path);
        shell.env_remove("SSH_AUTH_SOCK").env_remove("XDG_STATE_HOME");
        let ran = shell.output().unwrap();
        let (out, err) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
        assert!(ran.status.success(), "{name}:{line}: {}\n{commands}\n{out}{err}", ran.status);
        println!("{name}:{line}:\n{out}{err}");
        let unkept = block.unkept(&out.replace(&lab.arg("data"), "/data"), &err);
        assert!(unkept.is_empty(), "{name}:{line}: the page shows {unkept:#?}\nprinted:\n{out}{err}");
    }
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
    prepare(&lab, &server);
    let command = placed(&lab, &format!("exec lhscp{command}"));
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
fn the_page_about_keys_can_be_followed() {
    run_page("docs/keys.md");
}

#[test]
fn the_page_about_openid_can_be_followed() {
    run_page("docs/oidc.md");
}

/// Returns the indented lines of a page that begin with `start`.
fn indented<'a>(page: &'a str, start: &str) -> Vec<&'a str> {
    let found: Vec<_> = lh_interop::shown::code(page)
        .into_iter()
        .flat_map(|block| block.lines)
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
    prepare(&lab, &server);
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
    prepare(&lab, &server);
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
