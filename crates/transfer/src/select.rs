//! Which files of a tree are copied: patterns, a manifest, a share of all.

use std::collections::HashSet;
use std::fmt;

use lh_crypto::Hash;

use lh_sftp::glob;

/// The part of a tree that is copied. The default leaves nothing out.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Selection {
    /// The first rule that matches decides; what none matches is copied.
    pub rules: Vec<Rule>,
    /// Only these, where there is a list.
    pub manifest: Option<Manifest>,
    /// Only this share of the files.
    pub shard: Option<Shard>,
}

/// `--include` or `--exclude`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// True if matching items are copied; false if they are left out.
    pub include: bool,
    pattern: Vec<u8>,
    /// The pattern has several parts, or a slash in front: it is about the path from the top of the tree.
    whole_path: bool,
    /// It ended with a slash: only directories match.
    only_directories: bool,
}

impl Rule {
    /// A rule from a pattern: shell wildcards; with a slash inside or in front it is compared with the path
    /// from the top of the tree (where `**` stands for any number of directories), else with names at any
    /// depth; with a slash at the end it matches only directories.
    pub fn new(include: bool, pattern: &[u8]) -> Self {
        let (pattern, only_directories) = match pattern.strip_suffix(b"/") {
            Some(rest) => (rest, true),
            None => (pattern, false),
        };
        let whole_path = pattern.contains(&b'/');
        let pattern = pattern.strip_prefix(b"/").unwrap_or(pattern).to_vec();
        Self { include, pattern, whole_path, only_directories }
    }

    fn matches(&self, path: &[u8], directory: bool) -> bool {
        if self.only_directories && !directory {
            return false;
        }
        if !self.whole_path {
            return name_matches(&self.pattern, crate::base_name(path));
        }
        let pattern: Vec<&[u8]> = self.pattern.split(|&byte| byte == b'/').collect();
        let path: Vec<&[u8]> = path.split(|&byte| byte == b'/').collect();
        path_matches(&pattern, &path)
    }
}

/// Without the shell's rule that a leading dot must be typed: who leaves out `*.bak` means `.x.bak` too.
fn name_matches(pattern: &[u8], name: &[u8]) -> bool {
    glob::matches(&[b".", pattern].concat(), &[b".", name].concat())
}

fn path_matches(pattern: &[&[u8]], path: &[&[u8]]) -> bool {
    // The set of positions reachable after each part of the path: several `**` cannot take exponential time.
    let mut reached = vec![false; pattern.len() + 1];
    reached[0] = true;
    let skip = |reached: &mut Vec<bool>| {
        for at in 0..pattern.len() {
            if reached[at] && pattern[at] == b"**" {
                reached[at + 1] = true;
            }
        }
    };
    skip(&mut reached);
    for name in path {
        let mut next = vec![false; pattern.len() + 1];
        for (at, part) in pattern.iter().enumerate().filter(|(at, _)| reached[*at]) {
            if *part == b"**" {
                next[at] = true;
            } else if name_matches(part, name) {
                next[at + 1] = true;
            }
        }
        skip(&mut next);
        reached = next;
    }
    reached[pattern.len()]
}

/// A list of files, by their paths from the top of the tree.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Manifest {
    files: HashSet<Vec<u8>>,
    directories: HashSet<Vec<u8>>,
}

impl Manifest {
    /// Reads a list: a path a line, or with NULs where there is one. Empty lines and those that begin with
    /// `#` do not count; `./` in front is ignored. A directory stands for everything in it.
    pub fn parse(text: &[u8]) -> Self {
        let end = if text.contains(&0) { 0 } else { b'\n' };
        let mut manifest = Self::default();
        for line in text.split(|&byte| byte == end) {
            let line = line.strip_suffix(b"\r").filter(|_| end != 0).unwrap_or(line);
            if line.is_empty() || (end != 0 && line.starts_with(b"#")) {
                continue;
            }
            let parts: Vec<&[u8]> =
                line.split(|&byte| byte == b'/').filter(|part| !part.is_empty() && *part != b".").collect();
            for depth in 1..parts.len() {
                manifest.directories.insert(parts[..depth].join(&b'/'));
            }
            manifest.files.insert(parts.join(&b'/'));
        }
        manifest
    }

    /// Returns the number of paths that it names.
    pub fn len(&self) -> usize {
        self.files.len()
    }

    /// Returns true when it names nothing.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// The paths it names.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &[u8]> {
        // An empty path is the tree itself, which is there or has failed already.
        self.files.iter().map(Vec::as_slice).filter(|path| !path.is_empty())
    }

    fn wants(&self, path: &[u8], directory: bool) -> bool {
        if self.files.contains(path) || (directory && self.directories.contains(path)) {
            return true;
        }
        // In a directory that is named?
        let slashes = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
        slashes.into_iter().any(|(at, _)| self.files.contains(&path[..at])) || self.files.contains(&b""[..])
    }
}

/// One of several equal shares of the files of a tree: the same on every host and in any order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shard {
    /// Which share, from 0 on.
    pub number: u32,
    /// Total number of shards.
    pub of: u32,
}

/// Like [`Shard::parse`] reads it.
impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", u64::from(self.number) + 1, self.of)
    }
}

/// Why a flag names no share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BadShard {
    /// `auto` outside of a job array.
    NoTask,
    /// `auto` in an indexed Job of Kubernetes, which tells its pods their index alone.
    NoTotal,
    /// `auto/n` in a job array of another size, or with an index beyond it: the shares would not be the tree.
    OtherTotal {
        /// n of the flag, or what `JOB_COMPLETIONS` says.
        wanted: u32,
        /// Values of the scheduler, in words for the message.
        found: String,
    },
    /// Neither `i/n`, `auto` nor `auto/n`.
    Malformed(String),
}

impl fmt::Display for BadShard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoTask => {
                write!(
                    f,
                    "--shard auto: this is no task of a job array of Slurm, Grid Engine or LSF, \
                     nor of an indexed Job of Kubernetes"
                )
            }
            Self::NoTotal => {
                write!(
                    f,
                    "--shard auto: Kubernetes does not tell a pod how many completions its Job has; \
                     give the number, as in --shard auto/8"
                )
            }
            Self::OtherTotal { wanted, found } => {
                write!(f, "--shard auto: {wanted} shares are wanted, but {found}")
            }
            Self::Malformed(text) => {
                write!(f, "bad shard \"{text}\": i/n, with i from 1 to n, auto, or auto/n")
            }
        }
    }
}

impl Shard {
    /// `i/n`, with i from 1 to n.
    pub fn parse(text: &str) -> Option<Self> {
        let (number, of) = text.split_once('/')?;
        let (number, of): (u32, u32) = (number.parse().ok()?, of.parse().ok()?);
        (1..=of).contains(&number).then(|| Self { number: number - 1, of })
    }

    /// The value of a flag: `i/n`, or `auto` and `auto/n` for [`of_task`](Self::of_task) with this process's
    /// environment.
    ///
    /// # Errors
    /// The text is no shard, or the scheduler does not say which share of how many this process has.
    pub fn of_flag(text: &str) -> Result<Self, BadShard> {
        let variable = |name: &str| std::env::var(name).ok();
        if text == "auto" {
            return Self::of_task(None, variable);
        }
        let malformed = || BadShard::Malformed(text.to_owned());
        match text.strip_prefix("auto/") {
            Some(total) => match total.parse() {
                Ok(total) if total > 0 => Self::of_task(Some(total), variable),
                _ => Err(malformed()),
            },
            None => Self::parse(text).ok_or_else(malformed),
        }
    }

    /// What the scheduler that runs this process as one of many says, through `variable`: a job array of
    /// Slurm, Grid Engine or LSF, or an indexed Job of Kubernetes. The last tells its pods only their index
    /// (`JOB_COMPLETION_INDEX`, from 0 on), so `total` or the variable `JOB_COMPLETIONS`, which the Job's
    /// author sets, has to say of how many.
    ///
    /// # Errors
    /// No scheduler says so, or `total` is not the size of the array.
    pub fn of_task(total: Option<u32>, variable: impl Fn(&str) -> Option<String>) -> Result<Self, BadShard> {
        if let Some(shard) = Self::of_array(&variable) {
            return match total {
                Some(wanted) if wanted != shard.of => {
                    Err(BadShard::OtherTotal { wanted, found: format!("this job array has {}", shard.of) })
                }
                _ => Ok(shard),
            };
        }
        let number = |name: &str| variable(name)?.parse::<u32>().ok();
        let index = number("JOB_COMPLETION_INDEX").ok_or(BadShard::NoTask)?;
        let of = match (total, number("JOB_COMPLETIONS")) {
            (Some(wanted), Some(of)) if wanted != of => {
                return Err(BadShard::OtherTotal { wanted, found: format!("JOB_COMPLETIONS is {of}") });
            }
            (total, completions) => total.or(completions).ok_or(BadShard::NoTotal)?,
        };
        if index >= of {
            return Err(BadShard::OtherTotal {
                wanted: of,
                found: format!("JOB_COMPLETION_INDEX is {index}"),
            });
        }
        Ok(Self { number: index, of })
    }

    /// Reads the shard from a job array of Slurm, Grid Engine or LSF, through `variable`.
    fn of_array(variable: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let number = |name: &str| variable(name)?.parse::<u32>().ok();
        if let (Some(id), Some(of)) = (number("SLURM_ARRAY_TASK_ID"), number("SLURM_ARRAY_TASK_COUNT")) {
            let first = number("SLURM_ARRAY_TASK_MIN").unwrap_or(0);
            let step = number("SLURM_ARRAY_TASK_STEP").unwrap_or(1).max(1);
            let number = id.checked_sub(first)? / step;
            return (number < of).then_some(Self { number, of });
        }
        if let (Some(id), Some(last)) = (number("SGE_TASK_ID"), number("SGE_TASK_LAST")) {
            let first = number("SGE_TASK_FIRST").unwrap_or(1);
            let step = number("SGE_TASK_STEPSIZE").unwrap_or(1).max(1);
            let (number, of) = (id.checked_sub(first)? / step, last.checked_sub(first)? / step + 1);
            return (number < of).then_some(Self { number, of });
        }
        let (id, of) = (number("LSB_JOBINDEX")?, number("LSB_JOBINDEX_END")?);
        (1..=of).contains(&id).then(|| Self { number: id - 1, of })
    }

    fn has(self, path: &[u8]) -> bool {
        let digest = Hash::Sha256.digest(&[path]);
        let first = digest.as_ref().first_chunk::<8>().map_or(0, |bytes| u64::from_be_bytes(*bytes));
        first % u64::from(self.of.max(1)) == u64::from(self.number)
    }
}

impl Selection {
    /// The paths of the manifest that a copy of the whole tree must meet: without those that a rule leaves
    /// out, by their name or with a directory, and those of other shards.
    pub(crate) fn expected(&self) -> HashSet<Vec<u8>> {
        let paths = self.manifest.iter().flat_map(Manifest::paths);
        let ruled_out = |path: &[u8], directory: bool| {
            self.rules.iter().find(|rule| rule.matches(path, directory)).is_some_and(|rule| !rule.include)
        };
        let in_reach = |path: &&[u8]| {
            let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
            let hidden = ends.into_iter().any(|at| ruled_out(path.get(..at).unwrap_or_default(), true));
            !hidden && !ruled_out(path, false) && self.shard.is_none_or(|shard| shard.has(path))
        };
        paths.filter(in_reach).map(<[u8]>::to_vec).collect()
    }

    /// Whether something is copied, or entered, by its path from the top of the tree. Directories belong to
    /// all shards.
    pub(crate) fn wants(&self, path: &[u8], directory: bool) -> bool {
        let ruled =
            self.rules.iter().find(|rule| rule.matches(path, directory)).is_none_or(|rule| rule.include);
        ruled
            && self.manifest.as_ref().is_none_or(|manifest| manifest.wants(path, directory))
            && (directory || self.shard.is_none_or(|shard| shard.has(path)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(rules: &[(bool, &str)], path: &str, directory: bool) -> bool {
        let rules = rules.iter().map(|(include, pattern)| Rule::new(*include, pattern.as_bytes())).collect();
        Selection { rules, ..Selection::default() }.wants(path.as_bytes(), directory)
    }

    #[test]
    fn the_first_rule_that_matches_decides() {
        let rules =
            [(true, "keep.tmp"), (false, "*.tmp"), (false, "/build/"), (false, "a/**/x"), (false, "cache/")];
        for (path, directory, expected) in [
            ("deep/down/keep.tmp", false, true),
            ("deep/down/other.tmp", false, false),
            (".hidden.tmp", false, false),
            ("build", true, false),
            ("build", false, true),
            ("src/build", true, true),
            ("a/x", false, false),
            ("a/b/c/x", false, false),
            ("b/a/x", false, true),
            ("any/cache", true, false),
            ("plain", false, true),
        ] {
            assert_eq!(wanted(&rules, path, directory), expected, "{path}");
        }
    }

    #[test]
    fn entries_left_out_by_rules_and_shards_are_not_expected() {
        let manifest = Some(Manifest::parse(b"a/b\na/c.o\nout/d\n./\n#x\n./#y\n"));
        let rules = vec![Rule::new(false, b"*.o"), Rule::new(false, b"out/")];
        let expected = |shard| {
            let select = Selection { rules: rules.clone(), manifest: manifest.clone(), shard };
            let mut paths: Vec<_> =
                select.expected().into_iter().map(|path| String::from_utf8(path).unwrap()).collect();
            paths.sort();
            paths
        };
        assert_eq!(expected(None), ["#y", "a/b"]);
        let shards = (0..3).flat_map(|number| expected(Some(Shard { number, of: 3 })));
        assert_eq!(shards.count(), 2, "each shard expects its own");
    }

    #[test]
    fn a_manifest_names_files_and_whole_directories() {
        let text = b"# comment\n./a/b/file\r\n\nwhole/\nodd name\n";
        let manifest = Manifest::parse(text);
        assert_eq!(manifest.len(), 3);
        let selection = Selection { manifest: Some(manifest), ..Selection::default() };
        for (path, directory, expected) in [
            ("a", true, true),
            ("a/b", true, true),
            ("a/b/file", false, true),
            ("a/b/other", false, false),
            ("whole", true, true),
            ("whole/of/it", false, true),
            ("odd name", false, true),
            ("z", true, false),
        ] {
            assert_eq!(selection.wants(path.as_bytes(), directory), expected, "{path}");
        }
        let nul = Manifest::parse(b"with\nline end\0#odd\0");
        assert!(nul.wants(b"with\nline end", false) && nul.wants(b"#odd", false));
    }

    #[test]
    fn every_file_is_in_exactly_one_shard_and_shares_are_fair() {
        let paths: Vec<String> = (0..4_000).map(|n| format!("dir{}/file{n}", n % 7)).collect();
        let mut counts = [0; 8];
        for path in &paths {
            let in_shards: Vec<u32> =
                (0..8).filter(|&number| Shard { number, of: 8 }.has(path.as_bytes())).collect();
            let [number] = in_shards[..] else { panic!("{path} is in {in_shards:?}") };
            counts[number as usize] += 1;
        }
        assert!(counts.iter().all(|count| (400..600).contains(count)), "{counts:?}");
    }

    #[test]
    fn shards_come_from_text_and_from_schedulers() {
        assert_eq!(Shard::parse("2/8"), Some(Shard { number: 1, of: 8 }));
        for wrong in ["0/8", "9/8", "1", "a/b", "1/0", "/"] {
            assert_eq!(Shard::parse(wrong), None, "{wrong}");
        }
        let task = |total: Option<u32>, variables: &[(&str, &str)]| {
            let value =
                |name: &str| variables.iter().find(|(each, _)| *each == name).map(|(_, value)| *value);
            Shard::of_task(total, |name| value(name).map(str::to_owned))
        };
        let of = |variables: &[(&str, &str)]| task(None, variables).ok();
        let slurm = [
            ("SLURM_ARRAY_TASK_ID", "14"),
            ("SLURM_ARRAY_TASK_COUNT", "3"),
            ("SLURM_ARRAY_TASK_MIN", "10"),
            ("SLURM_ARRAY_TASK_STEP", "2"),
        ];
        assert_eq!(of(&slurm), Some(Shard { number: 2, of: 3 }));
        assert_eq!(of(&[("SGE_TASK_ID", "4"), ("SGE_TASK_LAST", "4")]), Some(Shard { number: 3, of: 4 }));
        assert_eq!(of(&[("LSB_JOBINDEX", "1"), ("LSB_JOBINDEX_END", "2")]), Some(Shard { number: 0, of: 2 }));
        assert_eq!(task(None, &[("SGE_TASK_ID", "undefined")]), Err(BadShard::NoTask));
        assert_eq!(task(Some(3), &slurm), Ok(Shard { number: 2, of: 3 }));
        let other = task(Some(8), &slurm).unwrap_err().to_string();
        assert_eq!(other, "--shard auto: 8 shares are wanted, but this job array has 3");
        let pod = [("JOB_COMPLETION_INDEX", "7")];
        assert_eq!(task(Some(8), &pod), Ok(Shard { number: 7, of: 8 }));
        assert_eq!(task(None, &pod), Err(BadShard::NoTotal));
        assert!(matches!(task(Some(7), &pod), Err(BadShard::OtherTotal { wanted: 7, .. })));
        let told = [pod[0], ("JOB_COMPLETIONS", "8")];
        assert_eq!(task(None, &told), Ok(Shard { number: 7, of: 8 }));
        assert!(matches!(task(Some(16), &told), Err(BadShard::OtherTotal { wanted: 16, .. })));
    }
}
