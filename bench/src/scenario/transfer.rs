//! Transfers: through pipes, of one big file, of many small ones, and of a few out of very many.

use std::fs;
use std::io::Read as _;
use std::path::Path;

use super::measured::{ceiling, ends, rate, size_text, small_files};
use crate::bench::{Bench, remove};
use crate::cipher_suite::CipherSuite;
use crate::contestant::{Contestant, Contestants, Kind, Task, Variation};
use crate::job::{self, Client, Program, Sample};
use crate::stats::Better;
use crate::table::{Entry, Role, Table, interleave};
use crate::warm::Warm;

/// Factor by which dropbear's data is smaller: otherwise it would take most of the total time.
const SLOW: u64 = 16;

/// A command's output and input, all suites.
pub(super) fn pipe(bench: &Bench, field: &Contestants) -> Result<Vec<Table>, String> {
    let size = bench.options.size;
    let blob = bench.blob(size)?;
    let slow_size = (size / SLOW).max(1 << 20);
    let slow_blob = bench.blob(slow_size)?;
    let mut tables = Vec::new();
    for suite in &bench.options.suites {
        let with = Variation::of(suite);
        for way in ["down", "up"] {
            let mut entries = Vec::new();
            for who in field.all.iter().filter(|who| !matches!(who.kind, Kind::Mover { .. })) {
                let slow = matches!(who.kind, Kind::Dropbear { .. });
                let (blob, size) = if slow { (&slow_blob, slow_size) } else { (&blob, size) };
                let task = if way == "down" { Task::PipeDown(blob) } else { Task::PipeUp(blob) };
                let mut one = entry(bench, who, &with, &task, move |sample| Ok(rate(sample, size)));
                if let Some(one) = one.as_mut().filter(|_| slow) {
                    one.note(&size_text(size));
                }
                entries.extend(one);
            }
            entries.extend(tcp_ceilings(bench, suite, size));
            let title = format!("exec pipe {way}, {}, {}", suite.name(), size_text(size));
            tables.push(interleave("pipe", title, bench.options.rounds, entries));
        }
    }
    Ok(tables)
}

/// An entry of a contestant; `None` where it does not support the task.
fn entry<'a>(
    bench: &'a Bench,
    who: &Contestant,
    with: &Variation,
    task: &Task<'_>,
    mut judge: impl FnMut(&Sample) -> Result<Vec<crate::table::Measured>, String> + 'a,
) -> Option<Entry<'a>> {
    let (server, client) = (who.server(bench, with)?, who.client(bench, with, task)?);
    Some(Entry::new(&who.name, who.role(), move || judge(&job::run(bench, Some(&server), &client)?)))
}

/// Prepares memory before each run of an [`Entry`] that copies, see [`Warm`].
pub(super) fn warmed<'a>(mut entry: Entry<'a>, blob: &'a Path, target: &'a Path) -> Entry<'a> {
    let mut warm = None;
    entry.before(move || {
        // Frees the previous run's memory first.
        drop(warm.take());
        warm = Some(Warm::for_copy(blob, target));
    });
    entry
}

fn tcp_ceilings<'a>(bench: &'a Bench, suite: &CipherSuite, size: u64) -> [Entry<'a>; 2] {
    [("raw TCP".to_owned(), None), (format!("{} over TCP", suite.name()), Some(suite.name()))].map(
        |(name, cipher)| {
            let (server, client) = ceiling(bench, cipher, size);
            Entry::new(name, Role::Ceiling, move || Ok(rate(&job::run(bench, Some(&server), &client)?, size)))
        },
    )
}

/// A big file, all suites; movers without a suite of their own take part with the first.
pub(super) fn copy(bench: &Bench, field: &Contestants) -> Result<Vec<Table>, String> {
    let size = bench.options.size;
    let blob = bench.blob(size)?;
    let target = bench.data("copied");
    let mut tables = Vec::new();
    for (index, suite) in bench.options.suites.iter().enumerate() {
        let with = Variation::of(suite);
        for (way, task) in [("up", Task::Put(&blob, &target)), ("down", Task::Get(&blob, &target))] {
            let mut entries = Vec::new();
            for who in field.all.iter().filter(|who| index == 0 || who.is_suite()) {
                let mut first = true;
                let (blob, target) = (&blob, &target);
                let one = entry(bench, who, &with, &task, move |sample| {
                    check_and_remove(&mut first, blob, target)?;
                    Ok(rate(sample, size))
                });
                entries.extend(one.map(|one| warmed(one, blob, target)));
            }
            if let (Some(server), Some(mut client)) =
                (field.ours().server(bench, &with), field.ours().client(bench, &with, &task))
            {
                client.program.args.insert(0, "--no-verify".to_owned());
                let target = &target;
                let unverified = Entry::new("longhaul, unverified", Role::Peer, move || {
                    let sample = job::run(bench, Some(&server), &client)?;
                    remove(target);
                    Ok(rate(&sample, size))
                });
                entries.push(warmed(unverified, &blob, target));
            }
            entries.extend(tcp_ceilings(bench, suite, size));
            let cp = Client::new(Program::new(Path::new("cp"), [path(&blob), path(&target)]));
            let target = &target;
            let cp = Entry::new("cp", Role::Ceiling, move || {
                let sample = job::run(bench, None, &cp)?;
                remove(target);
                Ok(rate(&sample, size))
            });
            entries.push(warmed(cp, &blob, target));
            let title = format!("file copy {way}, {}, {}", suite.name(), size_text(size));
            tables.push(interleave("copy", title, bench.options.rounds, entries));
        }
    }
    Ok(tables)
}

fn path(path: &Path) -> String {
    path.display().to_string()
}

/// Removes a copy. Fails where it differs from `blob`: the `first` one by any byte, later ones by length.
pub(super) fn check_and_remove(first: &mut bool, blob: &Path, target: &Path) -> Result<(), String> {
    let same = if std::mem::take(first) { same(blob, target) } else { same_len(blob, target) };
    remove(target);
    if same { Ok(()) } else { Err("the copy differs".to_owned()) }
}

fn same_len(left: &Path, right: &Path) -> bool {
    matches!((fs::metadata(left), fs::metadata(right)), (Ok(a), Ok(b)) if a.len() == b.len())
}

fn same(left: &Path, right: &Path) -> bool {
    let compare = || -> std::io::Result<bool> {
        let (mut a, mut b) = (fs::File::open(left)?, fs::File::open(right)?);
        let (mut x, mut y) = (vec![0; 1 << 18], vec![0; 1 << 18]);
        loop {
            let count = a.read(&mut x)?;
            if count == 0 {
                return Ok(b.read(&mut y)? == 0);
            }
            b.read_exact(&mut y[..count])?;
            if x[..count] != y[..count] {
                return Ok(false);
            }
        }
    };
    compare().unwrap_or(false)
}

/// Two thousand small files in a few directories.
pub(super) fn small(bench: &Bench, field: &Contestants) -> Result<Vec<Table>, String> {
    let files = if bench.options.smoke { 60 } else { bench.options.tree.files.unwrap_or(2000) };
    let tree = bench.data("tree");
    let bytes = small_files(&tree, files, bench.options.tree.file_size)?;
    let target = bench.data("tree-copied");
    let judge = |sample: &Sample| {
        let arrived = count_files(&target);
        remove(&target);
        if arrived != files {
            return Err(format!("{arrived} of {files} files arrived"));
        }
        let mut run = vec![
            ("files/s", Better::Higher, files as f64 / sample.wall_s),
            ("CPU-ms in all", Better::Lower, sample.cpu_ms()),
        ];
        run.extend(ends(sample));
        Ok(run)
    };
    let with = Variation::of(&bench.options.suites[0]);
    let mut tables = Vec::new();
    for (way, task) in [("up", Task::PutTree(&tree, &target)), ("down", Task::GetTree(&tree, &target))] {
        let mut entries = Vec::new();
        for who in field.all.iter().cloned().chain(field.ours_with_stock_server()) {
            entries.extend(entry(bench, &who, &with, &task, judge));
            if let (Some(server), Some(client)) = (who.server(bench, &with), who.tar(bench, &with, &task)) {
                let name = format!("tar, {}", who.name);
                entries.push(Entry::new(name, Role::Peer, move || {
                    judge(&job::run(bench, Some(&server), &client)?)
                }));
            }
        }
        let cp = Client::new(Program::new(Path::new("cp"), ["-r".to_owned(), path(&tree), path(&target)]));
        entries.push(Entry::new("cp -r", Role::Ceiling, move || judge(&job::run(bench, None, &cp)?)));
        if !bench.options.only.is_empty() && !bench.options.only.iter().any(|only| only == way) {
            continue;
        }
        let title = format!("{files} small files {way}, {:.1} MB, {}", bytes as f64 / 1e6, suite_name(bench));
        tables.push(interleave("small", title, bench.options.rounds, entries));
    }
    remove(&tree);
    Ok(tables)
}

fn suite_name(bench: &Bench) -> String {
    bench.options.suites[0].name()
}

pub(super) fn count_files(dir: &Path) -> usize {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.map(|entry| if entry.path().is_dir() { count_files(&entry.path()) } else { 1 }).sum()
}

/// Ten files out of a directory of very many, by a wildcard that the client expands.
pub(super) fn list(bench: &Bench, field: &Contestants) -> Result<Vec<Table>, String> {
    let files: usize = if bench.options.smoke { 1000 } else { 100_000 };
    let dir = bench.data("many");
    let failed = |error: std::io::Error| format!("{}: {error}", dir.display());
    fs::create_dir_all(&dir).map_err(failed)?;
    for index in 0..files {
        fs::write(dir.join(format!("entry-{index:06}.dat")), b"x").map_err(failed)?;
    }
    let target = bench.data("few");
    fs::create_dir_all(&target).map_err(failed)?;
    let pattern = "entry-*0042?.dat";
    let expected = files / 100_000 * 10 + if files < 100_000 { 10 } else { 0 };
    let judge = |sample: &Sample| {
        let arrived = count_files(&target);
        for entry in fs::read_dir(&target).into_iter().flatten().flatten() {
            remove(&entry.path());
        }
        if arrived != expected {
            return Err(format!("{arrived} files arrived, not {expected}"));
        }
        let mut run =
            vec![("s", Better::Lower, sample.wall_s), ("CPU-ms in all", Better::Lower, sample.cpu_ms())];
        run.extend(ends(sample));
        Ok(run)
    };
    let with = Variation::of(&bench.options.suites[0]);
    let mut entries = Vec::new();
    for who in &field.all {
        entries.extend(entry(bench, who, &with, &Task::Glob(&dir, pattern, &target), judge));
    }
    let title = format!("{expected} files by a wildcard out of {files}, {}", suite_name(bench));
    let mut tables = vec![interleave("list", title, bench.options.rounds, entries)];
    let listed = bench.data("listed");
    let names = files / 100;
    let mut entries = Vec::new();
    for who in field.all.iter().cloned().chain(field.ours_with_stock_server()) {
        let (Some(server), Some(client)) =
            (who.server(bench, &with), who.listing(bench, &with, &dir.join("*77.dat"), &listed))
        else {
            continue;
        };
        let listed = &listed;
        entries.push(Entry::new(who.name.clone(), who.role(), move || {
            let sample = job::run(bench, Some(&server), &client)?;
            let found = fs::read_to_string(listed).unwrap_or_default();
            // sftp echoes the command itself.
            let found =
                found.lines().filter(|line| !line.starts_with("sftp>") && line.ends_with("77.dat")).count();
            match found == names {
                true => Ok(vec![
                    ("s", Better::Lower, sample.wall_s),
                    ("CPU-ms in all", Better::Lower, sample.cpu_ms()),
                ]),
                false => Err(format!("{found} names, not {names}")),
            }
        }));
    }
    let title = format!("sftp's ls DIR/*77.dat, {names} of {files}, {}", suite_name(bench));
    tables.push(interleave("list", title, bench.options.rounds, entries));
    remove(&dir);
    Ok(tables)
}
