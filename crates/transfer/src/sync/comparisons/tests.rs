//! Comparisons as traces: each step in words, with an answer for each question.

use crate::end::{Entry, Times};
use crate::ends::Ends;
use crate::item::ItemSync;
use crate::options::Keep;
use crate::{Direction, Options, Placing, TreeSync};

use super::*;

fn info(kind: Kind, size: u64, seconds: i64) -> Info {
    let times = Some(Times { access: (0, 0), modification: (seconds, 5) });
    Info { kind, size: Some(size), times, mode: Some(0o644), ..Info::UNKNOWN }
}

fn item(ours: Info, there: TargetEntry) -> Item {
    let sync = ItemSync { there, ..ItemSync::default() };
    Item { parent: Some(7), sync, ..Item::top(b"s/a".to_vec(), b"t/a".to_vec(), ours) }
}

fn options() -> Options {
    Options {
        tree_sync: Some(TreeSync::default()),
        placing: Placing { atomic: true, ..Placing::default() },
        preserve: true,
        ..Options::default()
    }
}

fn led_to(path: &str) -> Outcome {
    Ok(Done::Listed(Some(vec![Entry { name: path.as_bytes().into(), info: Info::UNKNOWN }])))
}

fn refused() -> Outcome {
    Err(Fault::other("no"))
}

/// Comparisons and the terms of these options, between ends that have extended attributes.
fn set_up(options: &Options) -> (Comparisons, Terms) {
    let mut terms = Terms::new(options, &Ends::new(Direction::Download));
    terms.xattrs = options.keep.xattr_kinds() != 0;
    (Comparisons::new(CompareRules::new(options)), terms)
}

/// Compares an item; the answers are taken from `answers` in the order of the questions. Returns the steps in
/// words.
fn trace(options: &Options, item: Item, answers: impl IntoIterator<Item = Outcome>) -> Vec<String> {
    let (mut comparisons, terms) = set_up(options);
    let mut answers = answers.into_iter();
    let mut steps = Vec::new();
    comparisons.begin(item, b"t", &terms);
    while let Some(step) = comparisons.next_step() {
        steps.push(words(&step));
        let asked = match step {
            CompareStep::Ask { key, step, .. } => Some((key, step)),
            CompareStep::BackUp(key, _) => Some((key, SyncStep::Cleared)),
            _ => None,
        };
        if let Some((key, step)) = asked {
            comparisons.on_answer(key, step, answers.next().expect("one more answer"), &terms);
        }
    }
    assert!(comparisons.is_empty() || steps.last().is_some_and(|step| step.starts_with("link")));
    assert!(answers.next().is_none(), "a question is missing: {steps:?}");
    steps
}

fn words(step: &CompareStep) -> String {
    let text = |path: &[u8]| String::from_utf8_lossy(path).into_owned();
    match step {
        CompareStep::Ask { path, request: Request::Set(change), .. } => {
            format!("Set {:o} {}", change.mode.expect("a mode"), text(path))
        }
        CompareStep::Ask { path, request, .. } => format!("{request:?} {}", text(path)),
        CompareStep::BackUp(_, path) => format!("back up {}", text(path)),
        CompareStep::Touch(parent) => format!("touch {parent:?}"),
        CompareStep::Copy(item) => {
            assert!(item.sync.compared);
            let moved = if item.sync.backup == BackupState::Due { ", back up" } else { "" };
            format!("copy {}{}{moved}", text(&item.source), if item.alone { " alone" } else { "" })
        }
        CompareStep::Finished(_) => "finished".to_owned(),
        CompareStep::Unchanged { target, link, .. } => {
            format!("unchanged {} {:?}", text(target), link.as_deref().map(text))
        }
        CompareStep::Newer(target) => format!("newer {}", text(target)),
        CompareStep::CompareContents(item) => format!("contents {}", text(&item.source)),
        CompareStep::Link { identity, there, .. } => format!("link {identity:?} {there:?}"),
        CompareStep::DeleteFirst(item) => format!("delete first {}", text(&item.target)),
        CompareStep::InTheWay(target, fault) => format!("in the way {}: {}", text(target), fault.text),
        CompareStep::Failed(step, path, fault) => format!("{step:?} {}: {}", text(path), fault.text),
        CompareStep::NotKept(what, target, fault) => {
            format!("{what:?} not kept {}: {}", text(target), fault.text)
        }
    }
}

const TOUCH: &str = "touch Some(7)";

#[test]
fn unknown_attributes_are_asked_for_at_both_ends() {
    let file = info(Kind::File, 3, 100);
    let unknown = item(Info::UNKNOWN, TargetEntry::Unknown);
    let answers = [Ok(Done::Info(file)), Ok(Done::Info(file))];
    let steps = trace(&options(), unknown.clone(), answers);
    assert_eq!(steps, ["Stat s/a", "Lstat t/a", "unchanged t/a None", "finished"]);
    // What is not seen at the target is copied.
    let steps = trace(&options(), unknown.clone(), [Ok(Done::Info(file)), refused()]);
    assert_eq!(steps, ["Stat s/a", "Lstat t/a", TOUCH, "copy s/a"]);
    let steps = trace(&options(), unknown, [refused(), refused()]);
    assert_eq!(steps, ["Stat s/a", "Lstat t/a", "StatSource s/a: no", "finished"]);
    // Links are followed to the target that was named.
    let named = Item { target: b"t".to_vec(), ..item(file, TargetEntry::Unknown) };
    assert_eq!(trace(&options(), named, [refused()]), ["Stat t", TOUCH, "copy s/a"]);
}

#[test]
fn a_lost_connection_is_not_reported_for_each_item() {
    let lost = || Err(Fault { kind: FaultKind::Lost, text: "gone".to_owned() });
    let steps = trace(&options(), item(Info::UNKNOWN, TargetEntry::Unknown), [lost(), lost()]);
    assert_eq!(steps, ["Stat s/a", "Lstat t/a", "finished"]);
}

#[test]
fn links_are_the_same_where_they_lead_to_one_path() {
    let keep = Keep { links: true, ..Keep::default() };
    let options = Options { keep, ..options() };
    let (ours, theirs) = (info(Kind::Symlink, 1, 100), info(Kind::Symlink, 1, 200));
    let link = item(ours, TargetEntry::Found(theirs));
    let asked = ["ReadLink s/a", "ReadLink t/a"];
    let steps = trace(&options, link.clone(), [led_to("x"), led_to("x")]);
    assert_eq!(steps, [&asked[..], &["unchanged t/a Some(\"x\")", "finished"]].concat());
    let steps = trace(&options, link.clone(), [led_to("x"), led_to("y")]);
    assert_eq!(steps, [&asked[..], &[TOUCH, "copy s/a"]].concat());
    let steps = trace(&options, link.clone(), [led_to("x"), refused()]);
    assert_eq!(steps, [&asked[..], &[TOUCH, "copy s/a"]].concat());
    // With backups, what is there goes first.
    let sync = TreeSync { backup_dir: Some(b"old".to_vec()), ..TreeSync::default() };
    let backing_up = Options { tree_sync: Some(sync), ..options };
    let steps = trace(&backing_up, link, [led_to("x"), led_to("y"), Ok(Done::Ok)]);
    assert_eq!(steps, [&asked[..], &[TOUCH, "back up t/a", TOUCH, "copy s/a"]].concat());
}

#[test]
fn obstacles_are_removed_or_reported() {
    let dir = item(info(Kind::Dir, 0, 1), TargetEntry::Found(info(Kind::File, 1, 1)));
    let steps = trace(&options(), dir.clone(), [Ok(Done::Ok)]);
    assert_eq!(steps, [TOUCH, "Remove t/a", TOUCH, "copy s/a"]);
    let steps = trace(&options(), dir.clone(), [refused()]);
    assert_eq!(steps, [TOUCH, "Remove t/a", "in the way t/a: no", "finished"]);
    let dry = Options { dry_run: true, ..options() };
    assert_eq!(trace(&dry, dir, []), [TOUCH, "copy s/a"]);

    let file = item(info(Kind::File, 1, 1), TargetEntry::Found(info(Kind::Dir, 0, 1)));
    let steps = trace(&options(), file.clone(), [Ok(Done::Ok)]);
    assert_eq!(steps, [TOUCH, "RemoveDir t/a", TOUCH, "copy s/a"]);
    assert_eq!(trace(&dry, file.clone(), []), ["in the way t/a: Is a directory", "finished"]);
    let sync = TreeSync { delete: true, ..TreeSync::default() };
    let deleting = Options { tree_sync: Some(sync), ..options() };
    assert_eq!(trace(&deleting, file, []), ["delete first t/a"]);
}

#[test]
fn a_file_with_several_names_is_not_written_in_place() {
    let theirs = Info { links: Some(2), ..info(Kind::File, 9, 1) };
    let steps = trace(&options(), item(info(Kind::File, 1, 1), TargetEntry::Found(theirs)), []);
    assert_eq!(steps, [TOUCH, "copy s/a alone"]);
    let sync = TreeSync { backup_dir: Some(b"old".to_vec()), ..TreeSync::default() };
    let backing_up = Options { tree_sync: Some(sync), ..options() };
    let there = TargetEntry::Found(info(Kind::File, 9, 1));
    let steps = trace(&backing_up, item(info(Kind::File, 1, 1), there), []);
    assert_eq!(steps, [TOUCH, "copy s/a alone, back up"]);
    // A directory that stays is not touched by it.
    let dir = info(Kind::Dir, 0, 1);
    assert_eq!(trace(&backing_up, item(dir, TargetEntry::Found(dir)), []), ["copy s/a"]);
}

#[test]
fn attributes_of_unchanged_files_are_mended() {
    let ours = info(Kind::File, 3, 100);
    let theirs = Info { mode: Some(0o600), ..ours };
    let unchanged = item(ours, TargetEntry::Found(theirs));
    let mode = "Set 644 t/a";
    let steps = trace(&options(), unchanged.clone(), [Ok(Done::Ok)]);
    assert_eq!(steps, ["unchanged t/a None", mode, "finished"]);
    let steps = trace(&options(), unchanged, [refused()]);
    assert_eq!(steps, ["unchanged t/a None", mode, "FinishTarget t/a: no", "finished"]);

    let keep = Keep { xattrs: true, ..Keep::default() };
    let with_xattrs = Options { keep, ..options() };
    let asked = ["unchanged t/a None", "Xattrs s/a", "Xattrs t/a"];
    let xattrs = |value: &[u8]| Ok(Done::Xattrs(vec![(b"user.a".to_vec(), value.to_vec())]));
    let same = || item(ours, TargetEntry::Found(ours));
    let steps = trace(&with_xattrs, same(), [xattrs(b"1"), xattrs(b"1")]);
    assert_eq!(steps, [&asked[..], &["finished"]].concat());
    let steps = trace(&with_xattrs, same(), [xattrs(b"1"), xattrs(b"2"), refused()]);
    assert_eq!(steps.len(), 6);
    assert!(steps[3].starts_with("SetXattrs") && steps[4] == "Xattrs not kept t/a: no", "{steps:?}");
    // What cannot be read is not set.
    let steps = trace(&with_xattrs, same(), [refused(), xattrs(b"2")]);
    assert_eq!(steps, [&asked[..], &["Xattrs not kept t/a: no", "finished"]].concat());
}

#[test]
fn contents_and_other_names_come_back_to_be_decided() {
    let sync = TreeSync { checksum: true, ..TreeSync::default() };
    let keep = Keep { hard_links: true, ..Keep::default() };
    let options = Options { tree_sync: Some(sync), keep, ..options() };
    let ours = Info { links: Some(2), identity: Some((1, 2)), ..info(Kind::File, 3, 100) };
    let theirs = Info { identity: Some((8, 9)), ..ours };
    for (same, joined, expected) in [
        (false, false, &[TOUCH, "copy s/a alone"][..]),
        (true, true, &["link (1, 2) Some((8, 9))", TOUCH]),
        (true, false, &["link (1, 2) Some((8, 9))", "unchanged t/a None", "finished"]),
    ] {
        let (mut comparisons, terms) = set_up(&options);
        comparisons.begin(item(ours, TargetEntry::Found(theirs)), b"t", &terms);
        let Some(CompareStep::CompareContents(item)) = comparisons.next_step() else { panic!("no step") };
        assert!(comparisons.is_empty(), "the caller has it");
        comparisons.contents_compared(*item, same, &terms);
        let mut steps = Vec::new();
        while let Some(step) = comparisons.next_step() {
            steps.push(words(&step));
            if let CompareStep::Link { key, .. } = step {
                comparisons.linked(key, joined, &terms);
            }
        }
        assert_eq!(steps, expected);
        assert!(comparisons.is_empty());
    }
}

#[test]
fn a_stopped_copy_begins_nothing_and_a_lost_one_ends_everything() {
    let (mut comparisons, terms) = set_up(&options());
    for _ in 0..2 {
        comparisons.begin(item(info(Kind::File, 1, 1), TargetEntry::Unknown), b"t", &terms);
    }
    let Some(CompareStep::Ask { key, step, .. }) = comparisons.next_step() else { panic!("no question") };
    assert!(matches!(comparisons.next_step(), Some(CompareStep::Ask { .. })));
    comparisons.stop();
    comparisons.on_answer(key, step, refused(), &terms);
    assert!(matches!(comparisons.next_step(), Some(CompareStep::Finished(_))));
    assert!(comparisons.next_step().is_none() && !comparisons.is_empty());
    comparisons.abandon();
    assert!(matches!(comparisons.next_step(), Some(CompareStep::Finished(_))));
    assert!(comparisons.is_empty());
}
