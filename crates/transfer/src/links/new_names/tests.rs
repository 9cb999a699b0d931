//! Steps of making links and names, one answer after the other.

use crate::end::{Info, Times};
use crate::item::ItemSync;

use super::*;

const KNOWN: Known = Known::Always(LinkOrder::TargetFirst);

fn link(there: TargetEntry) -> Item {
    let times = Some(Times { access: (1, 0), modification: (2, 0) });
    let info = Info { kind: Kind::Symlink, mode: Some(0o777), times, ..Info::UNKNOWN };
    let sync = ItemSync { there, ..ItemSync::default() };
    Item { sync, ..Item::top(b"s".to_vec(), b"t".to_vec(), info) }
}

fn to() -> Outcome {
    let entry = crate::end::Entry { name: b"to"[..].into(), info: Info::UNKNOWN };
    Ok(Done::Listed(Some(vec![entry])))
}

fn refused() -> Outcome {
    Err(Fault::other("no"))
}

fn next(names: &mut NewNames) -> NameAction {
    names.next_action(KNOWN).expect("something to do")
}

#[test]
fn link_is_made_directly_where_there_is_nothing() {
    let mut names = NewNames::new(Kept { times: true, ids: false });
    names.begin_symlink(3, link(TargetEntry::Nothing));
    assert!(matches!(next(&mut names), NameAction::ReadLink(..)));
    names.on_answer(0, NameStep::Read, to());
    let NameAction::Symlink { to, link, .. } = next(&mut names) else { panic!("no link") };
    assert_eq!((&to[..], &link[..]), (&b"to"[..], &b"t"[..]));
    names.on_answer(0, NameStep::Make, Ok(Done::Ok));
    assert!(matches!(next(&mut names), NameAction::SetLink { .. }));
    names.on_answer(0, NameStep::Finish, refused());
    let NameAction::Made(name) = next(&mut names) else { panic!("not made") };
    assert!(name.id == 3 && names.is_empty());
}

#[test]
fn link_replaces_what_is_there_in_one_step() {
    for fails in [false, true] {
        let info = Info { kind: Kind::File, ..Info::UNKNOWN };
        let mut names = NewNames::new(Kept::default());
        names.begin_symlink(3, link(TargetEntry::Found(info)));
        next(&mut names);
        names.on_answer(0, NameStep::Read, to());
        assert!(matches!(next(&mut names), NameAction::Remove(path) if path != b"t"));
        assert!(matches!(next(&mut names), NameAction::Symlink { link, .. } if link != b"t"));
        names.on_answer(0, NameStep::MakeBeside, Ok(Done::Ok));
        assert!(matches!(next(&mut names), NameAction::Rename { new, .. } if new == b"t"));
        names.on_answer(0, NameStep::Replace, if fails { refused() } else { Ok(Done::Ok) });
        if fails {
            assert!(matches!(next(&mut names), NameAction::Remove(path) if path != b"t"));
            assert!(matches!(next(&mut names), NameAction::Failed(_, FailedStep::PlaceTarget, _)));
        } else {
            assert!(matches!(next(&mut names), NameAction::Made(_)));
        }
        assert!(names.is_empty() && names.next_action(KNOWN).is_none());
    }
}

#[test]
fn hard_link_removes_our_name_after_replacing() {
    let mut names = NewNames::new(Kept { times: true, ids: true });
    let original = Original { path: b"first".to_vec(), sum: None };
    let sync = ItemSync { backup: BackupState::Due, ..ItemSync::default() };
    names.begin_hard(3, Item { sync, ..link(TargetEntry::Unknown) }, original);
    assert!(matches!(next(&mut names), NameAction::BackUp(..)));
    names.on_answer(0, NameStep::BackUp, Ok(Done::Ok));
    assert!(matches!(next(&mut names), NameAction::Link { old, new, .. } if old == b"first" && new == b"t"));
    names.on_answer(0, NameStep::Make, refused());
    assert!(matches!(next(&mut names), NameAction::Remove(_)));
    assert!(matches!(next(&mut names), NameAction::Link { .. }));
    names.on_answer(0, NameStep::MakeBeside, Ok(Done::Ok));
    next(&mut names);
    names.on_answer(0, NameStep::Replace, Ok(Done::Ok));
    assert!(matches!(next(&mut names), NameAction::Remove(_)));
    // It has the attributes of its file.
    assert!(matches!(next(&mut names), NameAction::Made(_)));
}

#[test]
fn lost_connection_is_not_tried_around() {
    let mut names = NewNames::new(Kept::default());
    names.begin_hard(3, link(TargetEntry::Nothing), Original { path: b"first".to_vec(), sum: None });
    next(&mut names);
    let lost = Fault { kind: FaultKind::Lost, text: String::new() };
    names.on_answer(0, NameStep::Make, Err(lost));
    assert!(matches!(next(&mut names), NameAction::Failed(..)) && names.is_empty());
}

const UNKNOWN: Known = Known::UNKNOWN;

fn missing() -> Outcome {
    Err(Fault { kind: FaultKind::NotFound, text: "none".to_owned() })
}

/// Two links for a server whose order is not known, of which the first is tried.
fn two_links() -> NewNames {
    let mut names = NewNames::new(Kept::default());
    names.begin_symlink(3, link(TargetEntry::Nothing));
    names.begin_symlink(4, link(TargetEntry::Nothing));
    names.next_action(UNKNOWN);
    names.next_action(UNKNOWN);
    names.on_answer(0, NameStep::Read, to());
    names.on_answer(1, NameStep::Read, to());
    assert!(matches!(names.next_action(UNKNOWN), Some(NameAction::Look(0, path)) if path == b"t"));
    assert!(names.next_action(UNKNOWN).is_none(), "the second link waits");
    names
}

#[test]
fn first_link_finds_the_order_for_the_others() {
    let mut names = two_links();
    let mut answered = |outcome| {
        names.on_answer(0, NameStep::Trial, outcome);
        names.next_action(UNKNOWN)
    };
    assert!(matches!(answered(missing()), Some(NameAction::Look(0, path)) if path == b"to"));
    let Some(NameAction::Symlink { step, order, .. }) = answered(missing()) else { panic!("no link") };
    assert!(matches!(step, NameStep::Trial) && order == LinkOrder::TargetFirst);
    assert!(matches!(answered(Ok(Done::Ok)), Some(NameAction::ReadBack(0, path)) if path == b"t"));
    assert!(matches!(answered(missing()), Some(NameAction::Look(0, path)) if path == b"t"));
    assert!(matches!(answered(missing()), Some(NameAction::ReadBack(0, path)) if path == b"to"));
    let entry = crate::end::Entry { name: b"t"[..].into(), info: Info::UNKNOWN };
    let reversed = Ok(Done::Listed(Some(vec![entry])));
    assert!(matches!(answered(reversed), Some(NameAction::Undo(0, path)) if path == b"to"));
    let Some(NameAction::Symlink { order, .. }) = answered(Ok(Done::Ok)) else { panic!("no link") };
    assert_eq!(order, LinkOrder::LinkFirst);
    assert!(matches!(answered(Ok(Done::Ok)), Some(NameAction::ReadBack(..))));
    assert!(matches!(answered(to()), Some(NameAction::UseOrder(LinkOrder::LinkFirst))));
    let known = Known::Always(LinkOrder::LinkFirst);
    assert!(matches!(names.next_action(known), Some(NameAction::Made(name)) if name.id == 3));
    let Some(NameAction::Symlink { key: 1, step, order, .. }) = names.next_action(known) else {
        panic!("no second link")
    };
    assert!(matches!(step, NameStep::Make) && order == LinkOrder::LinkFirst);
}

#[test]
fn link_that_cannot_be_made_leaves_the_trial_to_the_next() {
    let denied = || Err(Fault::other("denied"));
    let lost = || Err(Fault { kind: FaultKind::Lost, text: "gone".to_owned() });
    for (fault, text) in [(denied as fn() -> Outcome, "denied"), (lost, "gone")] {
        let mut names = two_links();
        names.on_answer(0, NameStep::Trial, missing());
        names.next_action(UNKNOWN);
        names.on_answer(0, NameStep::Trial, missing());
        names.next_action(UNKNOWN);
        while names.next_action(UNKNOWN).is_none() {
            names.on_answer(0, NameStep::Trial, fault());
            match names.next_action(UNKNOWN) {
                Some(NameAction::Failed(name, FailedStep::MakeSymlink, fault)) => {
                    assert!(name.id == 3 && fault.text == text);
                    break;
                }
                Some(NameAction::Symlink { order: LinkOrder::LinkFirst, .. }) => {}
                other => panic!("{other:?}"),
            }
        }
        assert!(matches!(names.next_action(UNKNOWN), Some(NameAction::Look(1, _))));
    }
}

#[test]
fn existing_name_is_replaced_with_care_too() {
    let mut names = two_links();
    names.on_answer(0, NameStep::Trial, Ok(Done::Info(Info { kind: Kind::File, ..Info::UNKNOWN })));
    assert!(matches!(next(&mut names), NameAction::Remove(path) if path != b"t"));
    assert!(matches!(names.next_action(UNKNOWN), Some(NameAction::Look(0, path)) if path != b"t"));
}
