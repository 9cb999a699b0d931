//! Keeps owners and extended attributes: carries out what [`crate::task::preserve`] decides, for files and
//! directories.

use crate::Options;
use crate::end::{Change, Op, Outcome};
use crate::ends::Ends;
use crate::item::Item;
use crate::report::Reporter;
use crate::target_facts::NotKept;
use crate::task::preserve::{NotPreserved, PreserveNext, PreserveRequest, PreserveRules, Preserved};
use crate::task::queues::Tasks;
use crate::token::{AttributeSubject, PreserveStep, Side, Token};
use crate::tree::walk::Tree;

/// The files and directories on their way, as far as their attributes are to be kept.
#[derive(Debug)]
pub(crate) struct Preserving<'a> {
    pub(crate) options: &'a Options,
    pub(crate) tasks: &'a mut Tasks,
    pub(crate) tree: &'a mut Tree,
    pub(crate) ends: &'a mut Ends,
    pub(crate) report: &'a mut Reporter,
}

/// The file or directory whose attributes are to be kept.
struct Subject<'a> {
    item: &'a Item,
    /// Current name of the copy.
    written: Vec<u8>,
    /// None while no data are copied.
    preserved: Option<&'a mut Preserved>,
    outstanding: &'a mut u32,
}

fn subject<'a>(tasks: &'a mut Tasks, tree: &'a mut Tree, whose: AttributeSubject) -> Option<Subject<'a>> {
    Some(match whose {
        AttributeSubject::File(key) => {
            let file = tasks.files.get_mut(key)?;
            Subject {
                written: file.written_path().to_vec(),
                item: &file.item,
                preserved: file.state.copying_mut().map(|copying| &mut copying.preserved),
                outstanding: &mut file.outstanding,
            }
        }
        AttributeSubject::Dir(key) => {
            let dir = tree.dirs.get_mut(key)?;
            Subject {
                written: dir.item.target.clone(),
                item: &dir.item,
                preserved: Some(&mut dir.preserved),
                outstanding: &mut dir.outstanding,
            }
        }
    })
}

impl Preserving<'_> {
    /// All data are written. True while something is to be kept first; what follows is then done by the
    /// answer.
    pub(crate) fn begin(&mut self, whose: AttributeSubject) -> bool {
        let Self { options, tasks, tree, ends, .. } = self;
        if !options.keep.asks_for_each() {
            return false;
        }
        let Some(subject) = subject(tasks, tree, whose) else { return false };
        match subject.preserved {
            Some(preserved @ Preserved::Todo) => *preserved = Preserved::Asked,
            Some(Preserved::Asked) => return true,
            _ => return false,
        }
        let next = PreserveRules::new(options, ends).begin(subject.item.info.ids);
        !self.carry_out(whose, next)
    }

    /// Returns true when all is kept, or cannot be: what waited for that continues.
    pub(crate) fn on_answer(
        &mut self,
        whose: AttributeSubject,
        step: PreserveStep,
        outcome: Outcome,
    ) -> bool {
        let Self { options, tasks, tree, ends, .. } = self;
        let Some(subject) = subject(tasks, tree, whose) else { return true };
        *subject.outstanding -= 1;
        let next = PreserveRules::new(options, ends).on_answer(step, subject.item.info.ids, outcome);
        self.carry_out(whose, next)
    }

    /// Carries out what is next. Returns true when that is nothing.
    fn carry_out(&mut self, whose: AttributeSubject, next: PreserveNext) -> bool {
        let Self { options, tasks, tree, ends, report } = self;
        let Some(subject) = subject(tasks, tree, whose) else { return true };
        match next.unkept {
            Some(NotPreserved::NoXattrs) => {
                let text = "the server has no extended attributes and no access control lists for us: they are not copied";
                ends.facts.report_not_kept(NotKept::Xattrs, text, report);
            }
            Some(NotPreserved::Refused(what, fault)) => {
                ends.facts.report_not_kept_at(what, &subject.item.target, &fault, report);
            }
            None => {}
        }
        let wanted = options.keep.xattr_kinds();
        let path = &subject.written;
        let (side, op, step) = match &next.request {
            &PreserveRequest::Give(ids, step) => {
                let change = Change { ids: Some(ids), ..Change::default() };
                (Side::Target, Op::SetPath { path, change }, step)
            }
            &PreserveRequest::ReadXattrs { owned } => {
                let op = Op::Xattrs { path: &subject.item.source, wanted };
                (Side::Source, op, PreserveStep::Xattrs { owned })
            }
            PreserveRequest::SetXattrs { owned, xattrs } => {
                let op = Op::SetXattrs { path, wanted, xattrs };
                (Side::Target, op, PreserveStep::SetXattrs { owned: *owned })
            }
            &PreserveRequest::Done { owned } => {
                if let Some(preserved) = subject.preserved {
                    *preserved = Preserved::Done { owned };
                }
                return true;
            }
        };
        *subject.outstanding += 1;
        ends.start(side, op, Token::Preserve(whose, step));
        false
    }
}
