//! Patterns of the sources, matched part by part: directories are listed here, or by a server that does it
//! itself.
//!
//! Commands in, steps out: the caller carries each step out at the source's end and gives the answer back.

use std::collections::{HashMap, VecDeque};

use lh_sftp::glob::{has_magic, matches, unescape};

use crate::end::{Done, Entry, Fault, FaultKind, Handle, Info, Outcome, fault_of};
use crate::names::{is_safe_name, join};
use crate::seen::SeenNames;
use crate::table::{Key, Table};
use crate::tree::MAX_LISTS;

/// Paths, and what is known of each.
pub(crate) type Found = Vec<(Vec<u8>, Info)>;

/// Next action of the caller.
#[derive(Debug)]
pub(crate) enum PatternStep {
    /// Opens a directory of which only what matches `pattern` is wanted; the answer is for
    /// [`Patterns::on_open`].
    List {
        key: Key,
        path: Vec<u8>,
        pattern: Vec<u8>,
    },
    /// Reads more of it; the answer is for [`Patterns::on_list`], with this number.
    ListMore(Key, u8, Handle),
    Close(Handle),
    /// Looks whether this exists; the answer is for [`Patterns::on_stat`].
    Stat(Key, Vec<u8>),
    /// Reports that a part of this directory could not be read: what matches there is not known.
    Unread(Vec<u8>, Fault),
    /// Takes what the pattern of this source matches, sorted by path.
    Matched(usize, Found),
}

/// The pattern of one source.
#[derive(Debug)]
struct Pattern {
    /// Split at slashes.
    parts: Vec<Vec<u8>>,
    open_tasks: usize,
    found: Found,
}

/// One directory being matched against one part of a pattern, or one path being looked for.
#[derive(Debug)]
struct Task {
    source: usize,
    path: Vec<u8>,
    part: usize,
    handle: Option<Handle>,
    lists_in_flight: u32,
    lists_allowed: u32,
    /// No more entries are to come.
    listed: bool,
    seen: SeenNames,
    /// The server matches: its listings are short, and may have nothing new for a while.
    matched_there: bool,
}

/// The patterns that are being matched.
#[derive(Debug, Default)]
pub(crate) struct Patterns {
    /// By number of the source.
    patterns: HashMap<usize, Pattern>,
    tasks: Table<Task>,
    steps: VecDeque<PatternStep>,
}

impl Patterns {
    /// Matches `pattern`, which source number `source` is.
    pub(crate) fn begin(&mut self, source: usize, pattern: &[u8]) {
        let parts = pattern.split(|&byte| byte == b'/').filter(|part| !part.is_empty());
        let parts = parts.map(<[u8]>::to_vec).collect();
        self.patterns.insert(source, Pattern { parts, open_tasks: 0, found: Vec::new() });
        let start = if pattern.starts_with(b"/") { b"/".to_vec() } else { Vec::new() };
        self.match_part(source, start, 0);
    }

    /// The next step to carry out; `None` until an answer comes.
    pub(crate) fn next_step(&mut self) -> Option<PatternStep> {
        self.steps.pop_front()
    }

    /// Goes on with part `part` of the pattern of `source`, below `path`.
    fn match_part(&mut self, source: usize, mut path: Vec<u8>, mut part: usize) {
        let Some(pattern) = self.patterns.get_mut(&source) else { return };
        while let Some(literal) = pattern.parts.get(part).filter(|literal| !has_magic(literal)) {
            path = join(&path, &unescape(literal));
            part += 1;
        }
        pattern.open_tasks += 1;
        let ended = part >= pattern.parts.len();
        let key = self.tasks.insert(Task {
            source,
            path: path.clone(),
            part,
            handle: None,
            lists_in_flight: 0,
            lists_allowed: 2,
            listed: false,
            seen: SeenNames::default(),
            matched_there: false,
        });
        if ended {
            self.steps.push_back(PatternStep::Stat(key, path));
        } else {
            self.open(key);
        }
    }

    /// Opens the directory that is matched.
    pub(crate) fn open(&mut self, key: Key) {
        let Some(task) = self.tasks.get(key) else { return };
        let path = if task.path.is_empty() { b".".to_vec() } else { task.path.clone() };
        let Some(pattern) = self.patterns.get(&task.source).and_then(|pattern| pattern.parts.get(task.part))
        else {
            return;
        };
        self.steps.push_back(PatternStep::List { key, path, pattern: pattern.clone() });
    }

    /// Begins a listing again, because its handle is another file's, too.
    pub(crate) fn list_again(&mut self, key: Key) {
        let Some(task) = self.tasks.get_mut(key) else { return };
        let Some(handle) = task.handle.take() else { return };
        task.lists_in_flight = 0;
        task.seen.begin_again();
        let listed = task.listed;
        self.steps.push_back(PatternStep::Close(handle));
        if listed {
            self.list_more(key);
        } else {
            self.open(key);
        }
    }

    pub(crate) fn on_open(&mut self, key: Key, outcome: Outcome) {
        let Some(task) = self.tasks.get_mut(key) else { return };
        match outcome {
            Ok(Done::Opened(handle, _)) => task.handle = Some(handle),
            Ok(Done::Listing(handle, entries)) => {
                task.listed = handle.is_none();
                task.matched_there = true;
                task.handle = handle;
                self.take(key, entries);
            }
            // Not a directory, or not readable: nothing matches there, like in glob(3).
            _ => task.listed = true,
        }
        self.list_more(key);
    }

    /// Keeps the listing going, or ends it.
    fn list_more(&mut self, key: Key) {
        let Some(task) = self.tasks.get_mut(key) else { return };
        if task.listed && task.lists_in_flight == 0 {
            self.steps.extend(task.handle.take().map(PatternStep::Close));
            return self.end(key);
        }
        let Some(handle) = &task.handle else { return };
        let more = if task.listed { 0 } else { task.lists_allowed.saturating_sub(task.lists_in_flight) };
        task.lists_in_flight += more;
        let round = task.seen.round();
        for _ in 0..more {
            self.steps.push_back(PatternStep::ListMore(key, round, handle.clone()));
        }
    }

    pub(crate) fn on_list(&mut self, key: Key, round: u8, outcome: Outcome) {
        let Some(task) = self.tasks.get_mut(key).filter(|task| task.seen.round() == round) else { return };
        task.lists_in_flight -= 1;
        task.lists_allowed = (task.lists_allowed + 1).min(MAX_LISTS);
        match outcome {
            // A server that matches by itself may have found nothing yet.
            Ok(Done::Listed(Some(entries))) if !entries.is_empty() || task.matched_there => {
                self.take(key, entries);
            }
            Ok(Done::Listed(_)) => task.listed = true,
            outcome => {
                let (fault, first) = (fault_of(outcome), !task.listed);
                task.listed = true;
                if first && !matches!(fault.kind, FaultKind::Eof | FaultKind::Lost) {
                    self.steps.push_back(PatternStep::Unread(task.path.clone(), fault));
                }
            }
        }
        self.list_more(key);
    }

    /// Takes the entries of a directory that match.
    fn take(&mut self, key: Key, mut entries: Vec<Entry>) {
        let Some(task) = self.tasks.get_mut(key) else { return };
        entries.retain(|entry| task.seen.is_new(&entry.name));
        let (source, part, path) = (task.source, task.part, task.path.clone());
        let Some(pattern) = self.patterns.get_mut(&source) else { return };
        let Some(wanted) = pattern.parts.get(part) else { return };
        entries.retain(|entry| is_safe_name(&entry.name) && matches(wanted, &entry.name));
        let matching = entries.into_iter().map(|entry| (join(&path, &entry.name), entry.info));
        if part + 1 == pattern.parts.len() {
            return pattern.found.extend(matching);
        }
        for (path, _) in matching {
            self.match_part(source, path, part + 1);
        }
    }

    pub(crate) fn on_stat(&mut self, key: Key, outcome: Outcome) {
        if let Some(task) = self.tasks.get_mut(key)
            && let Some(pattern) = self.patterns.get_mut(&task.source)
            && let Ok(Done::Info(info)) = outcome
        {
            pattern.found.push((std::mem::take(&mut task.path), info));
        }
        self.end(key);
    }

    /// A task has come to its end, and with the last one its pattern.
    fn end(&mut self, key: Key) {
        let Some(source) = self.tasks.remove(key).map(|task| task.source) else { return };
        let Some(pattern) = self.patterns.get_mut(&source) else { return };
        pattern.open_tasks -= 1;
        if pattern.open_tasks == 0
            && let Some(Pattern { mut found, .. }) = self.patterns.remove(&source)
        {
            found.sort_by(|one, other| one.0.cmp(&other.0));
            self.steps.push_back(PatternStep::Matched(source, found));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use crate::end::Kind;

    use super::*;

    /// Matches `pattern` on a server with these directories, which matches by itself or does not; returns
    /// what is found.
    fn matched(pattern: &str, tree: &[(&str, &[&str])], matches_there: bool) -> Vec<String> {
        let tree: BTreeMap<&str, &[&str]> = tree.iter().copied().collect();
        let missing = || Err(Fault { kind: FaultKind::NotFound, text: String::new() });
        let entry = |name: &&str| Entry { name: name.as_bytes().into(), info: Info::UNKNOWN };
        let entries = |path: &[u8]| -> Option<Vec<Entry>> {
            Some(tree.get(std::str::from_utf8(path).ok()?)?.iter().map(entry).collect())
        };
        let mut patterns = Patterns::default();
        patterns.begin(7, pattern.as_bytes());
        while let Some(step) = patterns.next_step() {
            match step {
                PatternStep::List { key, path, pattern } => {
                    let outcome = entries(&path).map_or_else(missing, |mut entries| {
                        if matches_there {
                            entries.retain(|entry| matches(&pattern, &entry.name));
                        }
                        Ok(Done::Listing(None, entries))
                    });
                    patterns.on_open(key, outcome);
                }
                PatternStep::Stat(key, path) => {
                    let is_in = |dir: &str, names: &[&str]| {
                        names.iter().any(|name| join(dir.as_bytes(), name.as_bytes()) == path)
                    };
                    let there = tree.iter().any(|(dir, names)| is_in(dir, names));
                    let info = Info { kind: Kind::File, ..Info::UNKNOWN };
                    patterns.on_stat(key, if there { Ok(Done::Info(info)) } else { missing() });
                }
                PatternStep::Matched(source, found) => {
                    assert!(source == 7 && patterns.next_step().is_none());
                    return found
                        .into_iter()
                        .map(|(path, _)| String::from_utf8_lossy(&path).into())
                        .collect();
                }
                step => panic!("{step:?} of a listing without a handle"),
            }
        }
        panic!("the pattern has no end");
    }

    #[test]
    fn parts_are_matched_one_by_one() {
        let tree: &[(&str, &[&str])] = &[
            (".", &["b", "a", "c"]),
            ("a", &["x.h5", "x.txt", ".x.h5"]),
            ("b", &["z.h5", "y.h5"]),
            ("/", &["top"]),
        ];
        for matches_there in [false, true] {
            assert_eq!(matched("[ab]/*.h5", tree, matches_there), ["a/x.h5", "b/y.h5", "b/z.h5"]);
            assert_eq!(matched("*/x.txt", tree, matches_there), ["a/x.txt"], "a literal part is looked for");
            assert_eq!(matched("/t*", tree, matches_there), ["/top"]);
            assert!(matched("*/none*", tree, matches_there).is_empty());
        }
    }

    #[test]
    fn a_listing_that_breaks_off_is_reported_and_its_end_is_not() {
        for (kind, told) in [(FaultKind::Other, 1), (FaultKind::Eof, 0), (FaultKind::Lost, 0)] {
            let mut patterns = Patterns::default();
            patterns.begin(0, b"dir/*");
            let Some(PatternStep::List { key, .. }) = patterns.next_step() else { panic!("no listing") };
            let handle = Handle::Remote(lh_sftp::Handle::new(b"h"), 0);
            patterns.on_open(key, Ok(Done::Opened(handle, None)));
            let one = vec![Entry { name: (*b"one").into(), info: Info::UNKNOWN }];
            patterns.on_list(key, 0, Ok(Done::Listed(Some(one))));
            // Several requests are on their way.
            for _ in 0..3 {
                patterns.on_list(key, 0, Err(Fault { kind, text: String::new() }));
            }
            let steps: Vec<_> = std::iter::from_fn(|| patterns.next_step()).collect();
            let unread = |step: &&PatternStep| matches!(step, PatternStep::Unread(path, _) if path == b"dir");
            assert_eq!(steps.iter().filter(unread).count(), told, "{steps:?}");
        }
    }

    #[test]
    fn name_that_leads_elsewhere_is_not_matched() {
        assert_eq!(matched("*", &[(".", &["../x", "a/b", "..", "ok"])], false), ["ok"]);
    }
}
