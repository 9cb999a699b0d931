//! The client's memory during the copy of a tree of very many files.

use std::fs;
use std::path::Path;

use super::measured::ends;
use super::transfer::count_files;
use crate::bench::{Bench, remove};
use crate::contestant::{Contestants, Task, Variation};
use crate::job::{self, Sample};
use crate::stats::Better;
use crate::table::{Entry, Table, interleave};

/// Files per directory.
const IN_FOLDER: usize = 1000;

/// A tree of empty files, with our server and with OpenSSH's.
pub(super) fn run(bench: &Bench, field: &Contestants) -> Result<Vec<Table>, String> {
    let files = if bench.options.smoke { 3000 } else { bench.options.tree.files.unwrap_or(1_000_000) };
    let (tree, target) = (bench.data("huge"), bench.data("huge-copied"));
    make(&tree, files).map_err(|error| format!("{}: {error}", tree.display()))?;
    let with = Variation::of(&bench.options.suites[0]);
    let mut tables = Vec::new();
    for (way, task) in [("up", Task::PutTree(&tree, &target)), ("down", Task::GetTree(&tree, &target))] {
        let title = format!("{files} empty files {way}, {IN_FOLDER} in a directory");
        if !bench.options.only.is_empty()
            && !bench.options.only.iter().any(|only| title.contains(only.as_str()))
        {
            continue;
        }
        let mut entries = Vec::new();
        for who in std::iter::once(field.ours().clone()).chain(field.ours_with_stock_server()) {
            let (Some(server), Some(client)) = (who.server(bench, &with), who.client(bench, &with, &task))
            else {
                continue;
            };
            let target = &target;
            entries.push(Entry::new(who.name.clone(), who.role(), move || {
                let sample: Sample = job::run(bench, Some(&server), &client)?;
                let arrived = count_files(target);
                remove(target);
                if arrived != files {
                    return Err(format!("{arrived} of {files} files arrived"));
                }
                let mut run = ends(&sample);
                run.push(("files/s", Better::Higher, files as f64 / sample.wall_s));
                Ok(run)
            }));
        }
        tables.push(interleave("huge-tree", title, 1, entries));
    }
    remove(&tree);
    Ok(tables)
}

fn make(tree: &Path, files: usize) -> std::io::Result<()> {
    for index in 0..files {
        let directory = tree.join(format!("directory-{:05}", index / IN_FOLDER));
        if index % IN_FOLDER == 0 {
            fs::create_dir_all(&directory)?;
        }
        fs::File::create(directory.join(format!("file-{index:07}.dat")))?;
    }
    Ok(())
}
