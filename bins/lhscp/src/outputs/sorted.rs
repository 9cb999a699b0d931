//! Sorting the lines of a manifest by their paths, in bounded memory.
//!
//! Lines that fit in memory are sorted there. Beyond that sorted runs go to a file without a name, and are
//! merged when they are read back.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, BufWriter, Read, Write as _};
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

/// Memory for the lines of one run, bytes.
const RUN: usize = 16 << 20;

/// A path, and the line for it.
type Line = (Vec<u8>, String);

/// See the module documentation.
pub(super) struct Sorter<'a> {
    create: &'a dyn Fn() -> io::Result<File>,
    /// Memory for one run.
    run: usize,
    lines: Vec<Line>,
    bytes: usize,
    file: Option<File>,
    /// Where each run ends in the file.
    ends: Vec<u64>,
}

impl<'a> Sorter<'a> {
    /// `create` makes the file for what does not fit in memory.
    pub(super) fn new(create: &'a dyn Fn() -> io::Result<File>) -> Self {
        Self { create, run: RUN, lines: Vec::new(), bytes: 0, file: None, ends: Vec::new() }
    }

    /// Adds a line, which has no line feed. Each path has one line.
    pub(super) fn add(&mut self, path: Vec<u8>, line: String) -> io::Result<()> {
        self.bytes += path.len() + line.len() + size_of::<Line>();
        self.lines.push((path, line));
        if self.bytes >= self.run { self.write_run() } else { Ok(()) }
    }

    fn write_run(&mut self) -> io::Result<()> {
        let file = match self.file.take() {
            Some(file) => file,
            None => (self.create)()?,
        };
        let mut out = BufWriter::new(file);
        let mut end = self.ends.last().copied().unwrap_or(0);
        self.lines.sort_unstable();
        for (path, line) in self.lines.drain(..) {
            let sizes = [path.len(), line.len()].map(|size| (size as u64).to_be_bytes()).concat();
            out.write_all(&sizes)?;
            out.write_all(&path)?;
            out.write_all(line.as_bytes())?;
            end += (sizes.len() + path.len() + line.len()) as u64;
        }
        self.file = Some(out.into_inner().map_err(io::IntoInnerError::into_error)?);
        self.ends.push(end);
        self.bytes = 0;
        Ok(())
    }

    /// Calls `each` with all lines, in the order of their paths.
    pub(super) fn finish(mut self, mut each: impl FnMut(&str) -> io::Result<()>) -> io::Result<()> {
        self.lines.sort_unstable();
        let Some(file) = self.file.take().map(Arc::new) else {
            return self.lines.iter().try_for_each(|(_, line)| each(line));
        };
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        let mut runs: Vec<BufReader<Run>> = starts
            .zip(&self.ends)
            .map(|(at, &end)| BufReader::new(Run { file: Arc::clone(&file), at, end }))
            .collect();
        // What is left in memory is the last run.
        let last = runs.len();
        let mut rest = std::mem::take(&mut self.lines).into_iter();
        let mut next = |run: usize| match runs.get_mut(run) {
            Some(run) => read_line(run),
            None => Ok(rest.next()),
        };
        let mut heads = BinaryHeap::new();
        for run in 0..=last {
            heads.extend(next(run)?.map(|line| Reverse((line, run))));
        }
        while let Some(Reverse(((_, line), run))) = heads.pop() {
            each(&line)?;
            heads.extend(next(run)?.map(|line| Reverse((line, run))));
        }
        Ok(())
    }
}

/// A run in the file.
struct Run {
    file: Arc<File>,
    at: u64,
    end: u64,
}

impl Read for Run {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.end - self.at).unwrap_or(usize::MAX).min(into.len());
        let count = self.file.read_at(&mut into[..most], self.at)?;
        self.at += count as u64;
        Ok(count)
    }
}

fn read_line(run: &mut BufReader<Run>) -> io::Result<Option<Line>> {
    if run.fill_buf()?.is_empty() {
        return Ok(None);
    }
    let mut sizes = [[0; 8]; 2];
    for size in &mut sizes {
        run.read_exact(size)?;
    }
    let [mut path, mut line] = sizes.map(|size| vec![0; u64::from_be_bytes(size) as usize]);
    run.read_exact(&mut path)?;
    run.read_exact(&mut line)?;
    let line = String::from_utf8(line).map_err(|_| io::ErrorKind::InvalidData)?;
    Ok(Some((path, line)))
}

#[cfg(test)]
mod tests {
    use super::super::files::unnamed_file_beside;
    use super::*;

    #[test]
    fn lines_are_sorted_in_memory_and_in_runs() {
        let paths: Vec<u32> = (0..500).map(|number| number * 7 % 500).collect();
        let create = || unnamed_file_beside(&std::env::temp_dir().join("sorted-manifest"));
        for run in [RUN, 2000, 1] {
            let mut sorter = Sorter { run, ..Sorter::new(&create) };
            for path in &paths {
                sorter.add(format!("{path:03}").into_bytes(), format!("line {path:03}")).unwrap();
            }
            assert_eq!(sorter.ends.is_empty(), run == RUN);
            let mut lines = Vec::new();
            sorter
                .finish(|line| {
                    lines.push(line.to_owned());
                    Ok(())
                })
                .unwrap();
            assert_eq!(lines, (0..500).map(|path| format!("line {path:03}")).collect::<Vec<_>>());
        }
    }
}
