//! The demonstration of the README: copies a tree and a big file to and from a loopback server, and reports
//! checksums and MB/s.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{IsTerminal as _, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use lh_interop::{Inetd, Lab, Lhsshd, find, make_blob, make_tree, me, our};
use sha2::{Digest as _, Sha256};

use crate::workspace::{Outcome, build_release, call, this_program};

struct Options {
    dir: Option<PathBuf>,
    size: usize,
    files: usize,
    peer: bool,
}

impl Options {
    fn parse(args: &[String]) -> Result<Self, String> {
        let mut options = Self { dir: None, size: 1 << 30, files: 2000, peer: true };
        let mut args = args.iter();
        while let Some(flag) = args.next() {
            let mut value = || args.next().ok_or_else(|| format!("{flag} needs a value"));
            let number =
                |text: &String| text.parse::<usize>().map_err(|_| format!("{flag}: not a number: {text}"));
            match flag.as_str() {
                "--dir" => options.dir = Some(PathBuf::from(value()?)),
                "--size" => options.size = number(value()?)?,
                "--files" => options.files = number(value()?)?,
                "--no-peer" => options.peer = false,
                _ => return Err(format!("demo: unknown option {flag}")),
            }
        }
        if let Some(dir) = &mut options.dir {
            *dir = fs::canonicalize(&*dir).map_err(|error| format!("{}: {error}", dir.display()))?;
        }
        Ok(options)
    }
}

/// A copy program and its server.
struct Side {
    title: &'static str,
    program: PathBuf,
    port: u16,
}

/// Measured times of one transfer, one per side.
struct Leg {
    what: &'static str,
    bytes: u64,
    seconds: Vec<f64>,
}

/// Builds the programs, runs all copies, compares checksums and prints the report.
pub(crate) fn run(args: &[String]) -> Outcome {
    let options = Options::parse(args)?;
    let bins = build_release()?;
    // `lh_interop` reads this variable. Only a new process can get it safely.
    if std::env::var_os("LH_BIN_DIR").is_none_or(|dir| Path::new(&dir) != bins) {
        return again(&bins, args);
    }
    let lab = Lab::new();
    println!("demo: keys, data and copies live in {} until the end", lab.dir().display());
    let tree = match &options.dir {
        Some(dir) => dir.clone(),
        None => {
            make_tree(&lab.path("tree"), options.files);
            lab.path("tree")
        }
    };
    make_blob(&lab.path("big"), options.size);
    let big = lab.path("big");

    let ours = Lhsshd::start(&lab, "");
    println!("demo: lhsshd serves {} on 127.0.0.1 port {}", me(), ours.port);
    let mut sides = vec![Side { title: "longhaul", program: our("lhscp"), port: ours.port }];
    let theirs = match (options.peer, find("scp"), find("sshd")) {
        (true, Some(scp), Some(sshd)) => {
            let server = Inetd::openssh(&lab, &sshd, "");
            sides.push(Side { title: "openssh", program: scp, port: server.port });
            Some(server)
        }
        (true, ..) => {
            println!("demo: no scp and sshd of the system: no comparison");
            None
        }
        (false, ..) => None,
    };

    let sums = (checksums(&tree)?, checksums(&big)?);
    let bytes = |path: &Path| size_of(path);
    let mut legs = Vec::new();
    for (what, source, sum, up) in [
        ("big file up", &big, &sums.1, true),
        ("big file down", &big, &sums.1, false),
        ("tree up", &tree, &sums.0, true),
        ("tree down", &tree, &sums.0, false),
    ] {
        let mut leg = Leg { what, bytes: bytes(source)?, seconds: Vec::new() };
        for side in &sides {
            println!("\n--- {what}, {}", side.title);
            let copy = lab.path("copy");
            leg.seconds.push(copy_once(&lab, side, source, &copy, up)?);
            compare(sum, &checksums(&copy)?, what)?;
            println!("checksums equal");
            remove(&copy)?;
        }
        legs.push(leg);
    }
    let log = ours.log();
    drop(theirs);
    drop(ours);
    report(&sides, &legs);
    if log.contains("panicked") {
        return Err(format!("the server panicked:\n{log}"));
    }
    println!("demo: every checksum was equal; server stopped, {} removed", lab.dir().display());
    Ok(())
}

/// Runs this program again with `LH_BIN_DIR` set, which is safe only in a new process's environment.
fn again(bins: &Path, args: &[String]) -> Outcome {
    call(this_program()?.arg("demo").args(args).env("LH_BIN_DIR", bins))
}

fn copy_once(lab: &Lab, side: &Side, source: &Path, copy: &Path, up: bool) -> Result<f64, String> {
    let remote = |path: &Path| format!("{}@127.0.0.1:{}", me(), path.display());
    let (from, to) = if up {
        (source.display().to_string(), remote(copy))
    } else {
        (remote(source), copy.display().to_string())
    };
    let mut command = Command::new(&side.program);
    if source.is_dir() {
        command.arg("-r");
    }
    command.args(lab.client_options()).args(["-P", &side.port.to_string(), &from, &to]).stdin(Stdio::null());
    let start = Instant::now();
    call(&mut command)?;
    Ok(start.elapsed().as_secs_f64())
}

/// Returns the SHA-256 of every file, by path relative to `root` (`root` itself when it is a file). Follows
/// links, as scp does.
fn checksums(root: &Path) -> Result<BTreeMap<PathBuf, String>, String> {
    let mut sums = BTreeMap::new();
    let mut todo = vec![root.to_path_buf()];
    while let Some(path) = todo.pop() {
        let problem = |error: std::io::Error| format!("{}: {error}", path.display());
        let meta = fs::metadata(&path).map_err(problem)?;
        let name = path.strip_prefix(root).unwrap_or(&path).to_path_buf();
        if meta.is_dir() {
            for entry in fs::read_dir(&path).map_err(problem)? {
                todo.push(entry.map_err(problem)?.path());
            }
            sums.insert(name, "directory".to_owned());
        } else if meta.is_file() {
            let mut file = File::open(&path).map_err(problem)?;
            let mut hash = Sha256::new();
            let mut block = vec![0; 1 << 18];
            loop {
                let count = file.read(&mut block).map_err(problem)?;
                if count == 0 {
                    break;
                }
                hash.update(&block[..count]);
            }
            sums.insert(name, hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect());
        }
    }
    Ok(sums)
}

fn compare(want: &BTreeMap<PathBuf, String>, got: &BTreeMap<PathBuf, String>, what: &str) -> Outcome {
    for (name, sum) in want {
        match got.get(name) {
            Some(other) if other == sum => {}
            Some(_) => return Err(format!("{what}: the checksum of {} differs", name.display())),
            None => return Err(format!("{what}: {} did not arrive", name.display())),
        }
    }
    match got.keys().find(|name| !want.contains_key(*name)) {
        Some(extra) => Err(format!("{what}: {} is not in the source", extra.display())),
        None => Ok(()),
    }
}

fn size_of(path: &Path) -> Result<u64, String> {
    let problem = |error: std::io::Error| format!("{}: {error}", path.display());
    let meta = fs::metadata(path).map_err(problem)?;
    if !meta.is_dir() {
        return Ok(meta.len());
    }
    let mut sum = 0;
    for entry in fs::read_dir(path).map_err(problem)? {
        sum += size_of(&entry.map_err(problem)?.path())?;
    }
    Ok(sum)
}

fn remove(path: &Path) -> Outcome {
    let done = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    done.map_err(|error| format!("{}: {error}", path.display()))
}

fn report(sides: &[Side], legs: &[Leg]) {
    println!(
        "\n{:<15} {:>9}  {}",
        "leg",
        "MB",
        sides.iter().map(|side| format!("{:>16}", side.title)).collect::<String>()
    );
    for leg in legs {
        let megabytes = leg.bytes as f64 / 1e6;
        let rates: String = leg.seconds.iter().map(|s| format!("{:>11.1} MB/s", megabytes / s)).collect();
        let ratio = match leg.seconds.as_slice() {
            [ours, theirs] => format!("   {:.2}x", theirs / ours),
            _ => String::new(),
        };
        println!("{:<15} {megabytes:>9.1}  {rates}{ratio}", leg.what);
    }
    if !std::io::stdout().is_terminal() {
        println!("(run it in a terminal to see the progress display)");
    }
}
