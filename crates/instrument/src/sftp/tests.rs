//! Sessions with replies that a test makes up.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use lh_sftp::{Attrs, Handle, Name, Reply, ReplyBody, Status, StatusCode};

use super::deadlines::{Deadlines, Due, HURRIED_LIMIT, LIMIT};
use super::remove::{MOST_LEVELS, remove_tree};
use super::requests::{MOST_ENTRIES, Requests};
use super::session::SessionWork as _;
use super::steps::{Entry, Kind, Refusal};
use super::*;

const LATE: &str = "the server's SFTP did not answer in time";
const DIRECTORY: Option<u32> = Some(0o040_755);
const FILE: Option<u32> = Some(0o100_644);

fn status(code: StatusCode) -> ReplyBody {
    ReplyBody::Status(Status { code, message: String::new() })
}

fn handle() -> ReplyBody {
    ReplyBody::Handle(Handle::new(b"h"))
}

fn name(name: &str, permissions: Option<u32>) -> Name {
    Name { name: name.into(), long_name: Vec::new(), attrs: Attrs { permissions, ..Attrs::NONE } }
}

/// A session that has begun.
fn session() -> Requests {
    let now = Instant::now();
    let mut requests = Requests::new(None, OnStop::End);
    // The server's VERSION: a length, the type, and version 3.
    requests.on_data(bytes::Bytes::from_static(&[0, 0, 0, 5, 2, 0, 0, 0, 3]), now);
    requests
}

/// Does steps, and answers their requests with these bodies in order. Returns what they had as results, and
/// how many requests there were.
fn answered(steps: Vec<Step>, answers: impl IntoIterator<Item = ReplyBody>) -> (Outcome, usize) {
    let mut requests = session();
    requests.add(steps, Instant::now(), LIMIT);
    let mut count = 0;
    for body in answers {
        let Some(id) = requests.write_next(Instant::now()) else { break };
        count += 1;
        requests.on_reply(Reply { id, body }, Instant::now());
    }
    assert!(requests.is_over(), "a request is left");
    (requests.finish().expect("results"), count)
}

fn list() -> Vec<Step> {
    vec![Step::List("d".to_owned())]
}

#[test]
fn file_is_opened_written_and_closed() {
    for (content, requests) in [(&b""[..], 2), (b"x", 3)] {
        let steps = vec![Step::MakeFile("a".to_owned(), content.into())];
        let answers = std::iter::once(handle()).chain(std::iter::repeat_with(|| status(StatusCode::OK)));
        let (outcome, count) = answered(steps, answers);
        assert_eq!((outcome.refused.len(), count), (0, requests));
    }
}

#[test]
fn refusal_names_the_file_and_closes_it() {
    let steps = vec![Step::MakeFile("a".to_owned(), b"x"[..].into())];
    let answers = [handle(), status(StatusCode::PERMISSION_DENIED), status(StatusCode::OK)];
    let (outcome, count) = answered(steps, answers);
    assert_eq!(count, 3);
    assert_eq!(outcome.all_done().unwrap_err().to_string(), "a: Permission denied");
}

#[test]
fn answer_without_names_ends_a_listing() {
    let names = vec![name(".", DIRECTORY), name("f", FILE), name("d", DIRECTORY), name("../e", FILE)];
    let unknown = vec![name("u", None), name("v", Some(0o644))];
    let end = ReplyBody::Names(Vec::new());
    let answers = [handle(), ReplyBody::Names(names), ReplyBody::Names(unknown), end, status(StatusCode::OK)];
    let (outcome, count) = answered(list(), answers);
    assert_eq!(count, 5);
    let found: Vec<(&str, Kind)> =
        outcome.entries.iter().map(|entry| (entry.path.as_str(), entry.kind)).collect();
    let expected =
        [("d/f", Kind::File), ("d/d", Kind::Directory), ("d/u", Kind::Unknown), ("d/v", Kind::Unknown)];
    assert_eq!(found, expected);
}

#[test]
fn listing_without_end_is_left() {
    // Names that are none of the directory's count, too.
    for one in ["x", "."] {
        let answers = std::iter::repeat_with(|| ReplyBody::Names(vec![name(one, FILE); 1000]));
        let answers = std::iter::once(handle()).chain(answers.take(MOST_ENTRIES / 1000 + 1));
        let (outcome, _) = answered(list(), answers.chain([status(StatusCode::OK)]));
        assert!(outcome.all_done().unwrap_err().to_string().ends_with(" entries"));
    }
}

#[test]
fn interrupted_session_waits_for_its_answers_only() {
    let mut requests = session();
    let file = |name: &str| Step::MakeFile(name.to_owned(), b"x"[..].into());
    requests.add(vec![file("a"), file("b")], Instant::now(), LIMIT);
    let id = requests.write_next(Instant::now()).expect("a request");
    requests.on_stop(Instant::now());
    assert!(!requests.is_over());
    requests.on_reply(Reply { id, body: handle() }, Instant::now());
    assert!(requests.is_over() && requests.write_next(Instant::now()).is_none());
}

#[test]
fn only_answers_extend_the_time() {
    let begun = Instant::now();
    let mut requests = session();
    requests.add(list(), begun, Duration::from_secs(1));
    let id = requests.write_next(Instant::now()).expect("a request");
    requests.state().on_error_output(b"still busy\n");
    requests.on_reply(Reply { id: id + 1, body: handle() }, begun + Duration::from_millis(900));
    let mut without = requests.deadlines;
    assert_eq!(without.on_timeout(begun + Duration::from_secs(1)), Due::End);
    requests.on_reply(Reply { id, body: handle() }, begun + Duration::from_millis(900));
    assert_ne!(requests.deadlines.on_timeout(begun + Duration::from_secs(1)), Due::End);
    requests.state().on_end();
    assert_eq!(requests.finish().unwrap_err().to_string(), "still busy");
}

#[test]
fn deadline_lies_ahead_after_each_timeout() {
    let begun = Instant::now();
    let mut deadlines = Deadlines::new(begun, Duration::from_secs(1));
    let mut due = vec![deadlines.on_timeout(deadlines.next())];
    while due.last() != Some(&Due::End) {
        let now = deadlines.next();
        assert!(now > begun, "the loop would turn without a wait");
        due.push(deadlines.on_timeout(now));
        assert!(due.last() == Some(&Due::End) || deadlines.next() > now, "{due:?}");
        assert!(due.len() < 100, "{due:?}");
    }
    assert_eq!((due[0], due[1]), (Due::Begin, Due::Look));
    // Late by much, after a sleep of the machine: it still moves.
    let mut deadlines = Deadlines::new(begun, LIMIT);
    let late = begun + LIMIT / 2;
    assert_eq!(deadlines.on_timeout(late), Due::Begin);
    assert!(deadlines.next() > late);
    // The user wants an end: the server gets this time from now.
    deadlines.hurry(late, HURRIED_LIMIT);
    assert_eq!(deadlines.on_timeout(late + HURRIED_LIMIT / 2), Due::Look);
    assert_eq!(deadlines.on_timeout(late + HURRIED_LIMIT), Due::End);
}

/// A server with files, as [`remove_tree`] sees it.
#[derive(Default)]
struct Files {
    /// The permissions that listings tell, and whether it is a directory.
    all: HashMap<String, (Option<u32>, bool)>,
    /// Files that are there and cannot be removed.
    kept: Vec<String>,
    /// Names that are in listings only.
    ghosts: Vec<String>,
}

impl Files {
    fn new(all: &[(&str, Option<u32>, bool)]) -> Self {
        let all = all
            .iter()
            .map(|(path, permissions, is_directory)| ((*path).to_owned(), (*permissions, *is_directory)));
        Self { all: all.collect(), ..Self::default() }
    }

    fn children(&self, path: &str) -> Vec<String> {
        let is_child = |child: &&String| child.rsplit_once('/').is_some_and(|(parent, _)| parent == path);
        self.all.keys().chain(&self.ghosts).filter(is_child).cloned().collect()
    }

    fn perform(&mut self, steps: Vec<Step>) -> Outcome {
        let mut outcome = Outcome::default();
        for step in steps {
            let (path, done) = match step {
                Step::List(path) => {
                    let is_directory = self.all.get(&path).map(|found| found.1);
                    if is_directory == Some(true) {
                        outcome.entries.extend(self.children(&path).into_iter().map(|path| {
                            let permissions = self.all.get(&path).map_or(FILE, |found| found.0);
                            let kind = match permissions {
                                None => Kind::Unknown,
                                DIRECTORY => Kind::Directory,
                                Some(_) => Kind::File,
                            };
                            Entry { path, kind }
                        }));
                    }
                    (path, is_directory)
                }
                Step::RemoveFile(path) => {
                    let done = self.all.get(&path).map(|found| !found.1 && !self.kept.contains(&path));
                    (path, done)
                }
                Step::RemoveDirectory(path) => {
                    let is_empty = self.all.keys().all(|child| !child.starts_with(&format!("{path}/")));
                    let done = self.all.get(&path).map(|found| found.1 && is_empty);
                    if done == Some(true) {
                        self.all.remove(&path);
                    }
                    (path, done)
                }
                Step::MakeDirectory(path) | Step::MakeFile(path, _) => (path, Some(false)),
            };
            if done == Some(true) && self.all.get(&path).is_some_and(|found| !found.1) {
                self.all.remove(&path);
            }
            if done != Some(true) {
                let words = "refused".to_owned();
                outcome.refused.push(Refusal { path, words, is_missing: done.is_none() });
            }
        }
        outcome
    }

    /// Removes the directory `d`; returns what is left, and the fault.
    fn remove(mut self) -> (Vec<String>, Option<String>) {
        let removed = remove_tree("d", &mut |steps| Ok(self.perform(steps)));
        let mut left: Vec<String> = self.all.into_keys().collect();
        left.sort();
        (left, removed.err().map(|why| why.to_string()))
    }
}

#[test]
fn directories_are_removed_also_where_their_kind_is_unknown() {
    let tree = |directory, file| {
        Files::new(&[
            ("d", directory, true),
            ("d/many", directory, true),
            ("d/many/1.dat", file, false),
            ("d/small", directory, true),
            ("d/small/small", directory, true),
            ("d/small/small/1", file, false),
            ("d/file", file, false),
        ])
    };
    assert_eq!(tree(DIRECTORY, FILE).remove(), (Vec::new(), None));
    assert_eq!(tree(None, None).remove(), (Vec::new(), None));
    assert_eq!(Files::default().remove(), (Vec::new(), None), "what is not there is removed");
}

#[test]
fn removal_goes_on_after_a_refusal() {
    for permissions in [FILE, None] {
        let mut files = Files::new(&[
            ("d", DIRECTORY, true),
            ("d/kept", permissions, false),
            ("d/many", DIRECTORY, true),
            ("d/many/1.dat", FILE, false),
        ]);
        files.kept.push("d/kept".to_owned());
        // A name that the server drops between the listing and the removal.
        files.ghosts.push("d/many/.upload".to_owned());
        let (left, why) = files.remove();
        assert_eq!(left, ["d", "d/kept"]);
        assert!(why.is_some_and(|why| why.contains(": refused")), "{permissions:?}");
    }
    let mut files = Files::new(&[("d", DIRECTORY, true)]);
    files.ghosts.push("d/.upload".to_owned());
    assert_eq!(files.remove(), (Vec::new(), None));
}

#[test]
fn directory_in_itself_is_left() {
    let mut listed = 0;
    let removed = remove_tree("d", &mut |steps| {
        let mut outcome = Outcome::default();
        for step in steps {
            match step {
                Step::List(path) => {
                    listed += 1;
                    outcome.entries.push(Entry { path: format!("{path}/d"), kind: Kind::Directory });
                }
                Step::RemoveDirectory(path) => {
                    outcome.refused.push(Refusal { path, words: "not empty".to_owned(), is_missing: false });
                }
                _ => {}
            }
        }
        Ok(outcome)
    });
    assert_eq!(listed, MOST_LEVELS);
    assert!(removed.unwrap_err().to_string().ends_with(": not empty"));
}

#[test]
fn lost_session_ends_the_removal() {
    let mut asked = 0;
    let removed = remove_tree("d", &mut |_| {
        asked += 1;
        Err(Fault::Late(LATE))
    });
    assert_eq!((asked, removed.unwrap_err().to_string().as_str()), (1, LATE));
}
