//! Queries that each server gets once, after the versions: for more attributes, and whether it permits
//! renames.

use lh_sftp::extension;

use crate::end::{Op, Outcome};
use crate::ends::Ends;
use crate::remote::Remote;
use crate::report::Reporter;
use crate::target_facts::{NotKept, TargetFacts};
use crate::task::place::part_name;
use crate::token::{Side, Token};
use crate::{Event, Options};

/// Asks for all of this.
pub(crate) fn ask(options: &Options, ends: &mut Ends, report: &mut Reporter) {
    ask_for_full_attrs(options, ends, report);
    ask_about_renames(options, ends);
}

/// Asks remote ends for more attributes than version 3 has.
fn ask_for_full_attrs(options: &Options, ends: &mut Ends, report: &mut Reporter) {
    let wanted = options.attrs_wanted();
    for side in [Side::Source, Side::Target] {
        if ends.remote(side).is_some_and(|remote| remote.full()) {
            ends.start(side, Op::FullAttrs { wanted }, Token::Nothing);
        }
    }
    let silent = ends.source.as_ref().is_some_and(|source| !source.full());
    if options.keep.hard_links && silent {
        let text = "the server does not say which files are the same: hard links become files of their own";
        ends.facts.report_not_kept(NotKept::HardLinksUnknown, text, report);
    }
}

/// Asks the target's server, before there is anything to lose by it, whether it permits renames: by renaming
/// what is not there.
fn ask_about_renames(options: &Options, ends: &mut Ends) {
    // A server of ours offers what it lets one do, and no more.
    let offers = |remote: &Remote| {
        let offers = |name| remote.session().supports(name);
        offers(extension::PUT_FILES) && offers(extension::POSIX_RENAME)
    };
    let in_doubt = ends.target.as_ref().is_some_and(|remote| !offers(remote));
    if options.placing.atomic && !options.dry_run && in_doubt {
        let [old, new] = [[0; 16], [0xff; 16]].map(|tag| part_name(b"nothing", &tag));
        ends.start(Side::Target, Op::Rename { old: &old, new: &new }, Token::Renames);
    }
}

/// Takes the answer to that rename.
pub(crate) fn on_renames_answer(outcome: &Outcome, facts: &mut TargetFacts, report: &mut Reporter) {
    let why = match outcome {
        Err(fault) if fault.is_forbidden() => "the server permits no rename",
        Ok(_) => "the server confirms renames of files that do not exist",
        Err(_) => return,
    };
    facts.renames_barred = true;
    report.event(Event::Notice { text: format!("{why}: files are written in place") });
}

#[cfg(test)]
mod tests {
    use crate::end::{Done, Fault};
    use crate::{Direction, Placing};

    use super::*;

    #[test]
    fn files_are_written_in_place_where_renames_are_forbidden() {
        for (text, barred) in [("Permission denied", true), ("No such file or directory", false)] {
            let mut facts = TargetFacts::default();
            let mut report = Reporter::new(&Options::default());
            on_renames_answer(&Err(Fault::other(text)), &mut facts, &mut report);
            assert_eq!((facts.renames_barred, report.poll().is_some()), (barred, barred));
        }
        let mut facts = TargetFacts::default();
        on_renames_answer(&Ok(Done::Ok), &mut facts, &mut Reporter::new(&Options::default()));
        assert!(facts.renames_barred, "nothing was there");
    }

    #[test]
    fn this_host_is_asked_nothing() {
        let options =
            Options { placing: Placing { atomic: true, ..Placing::default() }, ..Options::default() };
        let mut ends = Ends::new(Direction::Download);
        ends.source = None;
        ask(&options, &mut ends, &mut Reporter::new(&options));
        assert!(ends.next_answer().is_none());
    }
}
