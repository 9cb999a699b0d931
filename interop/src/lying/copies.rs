//! Copies to and from the server of [`lying`](super), and what they must achieve.

use std::fs;
use std::path::{Path, PathBuf};

use super::Lie;
use crate::{Lab, Ran, make_blob, our};

/// Expected result of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    /// The copy is right, and the status is 0.
    Right,
    /// The copy is right, or the status is not 0.
    RightOrTold,
    /// The fault shows only when data are read back: reported with `--verify`. Without, the status may be 0,
    /// and then this much is right.
    ToldByVerify(Unread),
    /// All data are right; the status is 1 if more than data was to be kept.
    DataRight,
}

/// What a copy that reads nothing back achieves all the same. Part files are gone in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unread {
    /// Each file is there, with its size.
    Sizes,
    /// Each file is there.
    Names,
    /// As many files are there as were copied.
    Count,
}

use Expected::{DataRight, Right, RightOrTold, ToldByVerify};

/// Expected results of an upload and a download.
pub fn expected(lie: Lie, in_place: bool) -> (Expected, Expected) {
    match lie {
        Lie::ReusedHandles | Lie::OneHandle => (Right, Right),
        Lie::OutOfOrder | Lie::DropsRequests | Lie::CutsWriteOnly | Lie::ShortReads => (Right, Right),
        // No READ within a file is shorter; `--verify` reads what may be.
        Lie::LongReads => (Right, Right),
        // Only an upload sends requests larger than the server handles.
        Lie::LimitsNotKept => (RightOrTold, Right),
        // Only READs and WRITEs are sent again.
        Lie::DropsMany => (RightOrTold, RightOrTold),
        Lie::NoFsetstat | Lie::NoRemove | Lie::NoRename => (Right, Right),
        Lie::NoSetstat => (DataRight, Right),
        Lie::OddTimes | Lie::SizeEmpties | Lie::NoSeeks | Lie::RemovesOpened | Lie::MakesNoUpdated => {
            (Right, Right)
        }
        Lie::StaleSizes => (RightOrTold, Right),
        Lie::EarlyEof => (RightOrTold, RightOrTold),
        Lie::ShortWrites | Lie::Zeroed | Lie::ZeroedUnseen => (ToldByVerify(Unread::Sizes), Right),
        Lie::Swapped | Lie::PaddedUnseen => (ToldByVerify(Unread::Names), Right),
        Lie::Truncated | Lie::Padded | Lie::PadsEmpty | Lie::StoresBlocks => (RightOrTold, Right),
        // The size is asked for under the name that was opened, and not after the rename: programs that wait
        // for files may take them away then.
        Lie::WrongNames if in_place => (RightOrTold, Right),
        Lie::WrongNames => (ToldByVerify(Unread::Count), Right),
        Lie::FoldsCase => (Right, Right),
        Lie::MixedReads => (RightOrTold, ToldByVerify(Unread::Names)),
        Lie::WrongIds | Lie::TwiceAnswered => (RightOrTold, RightOrTold),
        // A handle under the id of another OPEN, and data under that of another READ, look right.
        Lie::RotatedIds => (ToldByVerify(Unread::Names), ToldByVerify(Unread::Names)),
        Lie::FewHandles | Lie::DeniesTenth => (Right, Right),
        Lie::FewOpens => (RightOrTold, RightOrTold),
        Lie::StaleFstat => (RightOrTold, Right),
        // No links in these trees: `symbolic_links_are_never_reversed` has some.
        Lie::LinkFirst | Lie::NoLinks | Lie::NoReadlink | Lie::GuardsLinks => (Right, Right),
        Lie::FullDisk => (RightOrTold, Right),
        Lie::IdleRename | Lie::NoPosixRename | Lie::ZeroLimits | Lie::TinyLimits => (Right, Right),
        Lie::EndsEarly => (RightOrTold, RightOrTold),
        Lie::NoSizes => (Right, Right),
        Lie::NoAttrs | Lie::HalfSizes => (RightOrTold, RightOrTold),
        Lie::TwiceListed | Lie::NoExtensions | Lie::BareReplies => (Right, Right),
        Lie::LongHandles | Lie::LongestHandles => (Right, Right),
        // No links in these trees: `links_are_told_from_what_they_lead_to` has some.
        Lie::ListsLinkTargets => (Right, Right),
        // After the first minute: `files_are_opened_as_scp_does_where_nothing_else_is_answered`.
        Lie::IgnoresOddOpens => (Right, Right),
        Lie::ListingBreaks | Lie::BadNames => (Right, RightOrTold),
        Lie::CloseFails | Lie::DataForWrite | Lie::ExtendedForStatus => (RightOrTold, RightOrTold),
        Lie::StatusForRead | Lie::MoreData => (RightOrTold, RightOrTold),
        Lie::EmptyHandles => (RightOrTold, RightOrTold),
        Lie::NoRealPath | Lie::TwoRealPaths | Lie::NoMkdir => (RightOrTold, RightOrTold),
    }
}

/// Writes a program without arguments that starts `program` as a server with these faults; returns its path.
pub fn liar(lab: &Lab, program: &str, lies: &[Lie]) -> String {
    let words: Vec<String> = lies.iter().map(|lie| lie.word()).collect();
    let name = format!("liar-{}", words.join("-"));
    if !lab.path(&name).exists() {
        lab.write(&name, &format!("#!/bin/sh\nexec {program} {}\n", words.join(" ")));
        lab.sh(&format!("chmod 755 {name}")).ok("a program");
    }
    lab.arg(&name)
}

/// Makes the trees to copy: `small`, `big` and `mixed`.
pub fn make_sources(lab: &Lab) {
    let sources = [("small", &[0, 1, 700, 1_500, 4_096, 20_000, 33_000, 40_001][..]), ("big", &[900_000])];
    for (tree, sizes) in sources {
        fs::create_dir_all(lab.path(tree)).unwrap();
        for (n, &size) in sizes.iter().enumerate() {
            make_blob(&lab.path(tree).join(format!("file{n}")), size);
        }
    }
    fs::create_dir_all(lab.path("mixed/sub/below")).unwrap();
    // One file ends where a request of 32 KiB does.
    for (n, size) in
        [(0, 300_001), (1, 10), (2, 2 * 32_768 - "mixed".len()), (3, 600_000), (4, 2_000), (5, 1)]
    {
        for directory in ["mixed", "mixed/sub", "mixed/sub/below"] {
            make_blob(&lab.path(directory).join(format!("file{n}")), size + directory.len());
        }
    }
}

/// Returns the files below `root`, with their contents, sorted.
pub fn files(root: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut all = Vec::new();
    for entry in fs::read_dir(root).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            all.extend(files(&path));
        } else {
            all.push((path.clone(), fs::read(&path).unwrap()));
        }
    }
    all.sort();
    all
}

/// Returns the files of `from` that `to` lacks or has with other data.
pub fn wrong(from: &Path, to: &Path) -> Vec<PathBuf> {
    let (from_files, to_files) = (files(from), files(to));
    let twin = |path: &Path| to.join(path.strip_prefix(from).unwrap());
    from_files
        .iter()
        .filter(|(path, data)| !to_files.iter().any(|(other, there)| *other == twin(path) && there == data))
        .map(|(path, _)| path.clone())
        .collect()
}

/// One copy of one tree.
pub struct Case<'a> {
    /// Directory of the trees.
    pub lab: &'a Lab,
    /// The fault of the server.
    pub lie: Lie,
    /// It goes to the server.
    pub upload: bool,
    /// The name of the tree.
    pub tree: &'static str,
    /// Flags of the program.
    pub flags: &'a [&'a str],
}

impl Case<'_> {
    /// Copies, and compares the result with what is expected.
    pub fn check(&self, copy: impl FnOnce(&str, &str) -> Ran) {
        let Self { lab, lie, upload, tree, flags } = *self;
        let to = lab.path("to");
        let _ = fs::remove_dir_all(&to);
        fs::create_dir_all(&to).unwrap();
        let (from, target) = (lab.arg(tree), lab.arg("to"));
        let ran = match upload {
            true => copy(&from, &format!("h:{target}")),
            false => copy(&format!("h:{from}"), &target),
        };
        let wrong = wrong(&lab.path(tree), &to.join(tree));
        let what = format!("{lie:?} {} {tree} {flags:?}", if upload { "up" } else { "down" });
        let said = format!("{what}: status {}, wrong: {wrong:?}\n{}", ran.code, ran.err);
        assert!(!ran.err.contains("panicked") && ran.code != 124, "{said}");
        if ran.code != 0 {
            assert!(!ran.err.trim().is_empty(), "no word: {said}");
        }
        let (up, down) = expected(lie, flags.contains(&"--in-place"));
        let verified = flags.contains(&"--verify");
        match if upload { up } else { down } {
            Right => assert!(ran.code == 0 && wrong.is_empty(), "{said}"),
            DataRight => {
                assert!(wrong.is_empty(), "{said}");
                assert_eq!(ran.code, i32::from(flags.contains(&"-p")), "{said}");
            }
            ToldByVerify(unread) if !verified => {
                assert!(ran.code != 0 || self.holds(unread), "{said}");
            }
            RightOrTold | ToldByVerify(_) => assert!(ran.code != 0 || wrong.is_empty(), "{said}"),
        }
    }
}

impl Case<'_> {
    /// What has arrived is what a copy that ended well achieves without reading it back.
    fn holds(&self, unread: Unread) -> bool {
        let below = |root: PathBuf| {
            let entry = |(path, data): (PathBuf, Vec<u8>)| {
                let name = path.strip_prefix(&root).unwrap().to_path_buf();
                (name, data.len())
            };
            files(&root).into_iter().map(entry).collect::<Vec<_>>()
        };
        let (from, to) = (below(self.lab.path(self.tree)), below(self.lab.path("to").join(self.tree)));
        let names = |entries: &[(PathBuf, usize)]| -> Vec<_> {
            entries.iter().map(|(name, _)| name.clone()).collect()
        };
        let is_part = |name: &PathBuf| name.extension().is_some_and(|extension| extension == "lhpart");
        let kept = match unread {
            Unread::Sizes => from == to,
            Unread::Names => names(&from) == names(&to),
            Unread::Count => from.len() == to.len(),
        };
        kept && !names(&to).iter().any(is_part)
    }
}

/// Copies all trees in both directions with all flags, over pipes.
pub fn over_pipes(program: &str, lies: &[Lie]) {
    let lab = Lab::new();
    make_sources(&lab);
    for &lie in lies {
        let server = liar(&lab, program, &[lie]);
        for flags in [
            &[][..],
            &["--verify"],
            &["-p"],
            &["--in-place"],
            &["--in-place", "--verify"],
            &["-p", "--verify"],
        ] {
            for tree in ["small", "big", "mixed"] {
                for upload in [true, false] {
                    let case = Case { lab: &lab, lie, upload, tree, flags };
                    case.check(|from, to| {
                        let args = [&["-r", "-D", &server][..], flags, &[from, to]].concat();
                        lab.run(&our("lhscp"), &args)
                    });
                }
            }
        }
    }
}
