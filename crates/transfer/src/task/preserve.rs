//! Attributes of files and directories that need requests of their own: owner and group, extended
//! attributes, access control lists.
//!
//! In this order, because a new owner takes set-user-id bits and capabilities away; mode and times come after
//! that. What an end cannot keep is no failure of the copy: it is reported once. Answers in, the next step
//! out.

use lh_sftp::extended_attrs::Xattrs;

use crate::Options;
use crate::end::{Done, Fault, FaultKind, Outcome, fault_of};
use crate::ends::Ends;
use crate::options::Keep;
use crate::target_facts::NotKept;
use crate::token::PreserveStep;

/// How far it has come.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Preserved {
    #[default]
    Todo,
    Asked,
    /// `owned`: the copy has the owner of the source.
    Done {
        owned: bool,
    },
}

impl Preserved {
    /// The bits of the mode that may be set: those that lend rights only on a file that has kept its owner.
    pub(crate) const fn mode_mask(self, plain: u32) -> u32 {
        if matches!(self, Self::Done { owned: true }) { 0o7777 } else { plain }
    }
}

/// Attributes that the options ask for and the ends support.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PreserveRules {
    keep: Keep,
    /// Both ends have extended attributes.
    have_xattrs: bool,
}

/// Next request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum PreserveRequest {
    /// Gives the copy this user and group; the answer is for the step.
    Give((u32, u32), PreserveStep),
    /// Reads extended attributes and ACLs of the source; the answer is for [`PreserveStep::Xattrs`].
    ReadXattrs { owned: bool },
    /// Sets those of the copy; the answer is for [`PreserveStep::SetXattrs`].
    SetXattrs { owned: bool, xattrs: Xattrs },
    /// Everything is kept, or cannot be.
    Done { owned: bool },
}

/// Attribute that is not kept, to be reported.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NotPreserved {
    /// A server has no extended attributes.
    NoXattrs,
    /// The end has refused this.
    Refused(NotKept, Fault),
}

/// Next step after an answer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct PreserveNext {
    pub(crate) request: PreserveRequest,
    pub(crate) unkept: Option<NotPreserved>,
}

impl From<PreserveRequest> for PreserveNext {
    fn from(request: PreserveRequest) -> Self {
        Self { request, unkept: None }
    }
}

impl PreserveRules {
    pub(crate) fn new(options: &Options, ends: &Ends) -> Self {
        Self { keep: options.keep, have_xattrs: ends.have_xattrs() }
    }

    /// All data are written; `ids` are those of the source.
    pub(crate) fn begin(self, ids: Option<(u32, u32)>) -> PreserveNext {
        match self.keep.ids_to_keep(ids) {
            Some(ids) => PreserveRequest::Give(ids, PreserveStep::Owner).into(),
            None => self.keep_xattrs(false),
        }
    }

    /// The answer to a request.
    pub(crate) fn on_answer(
        self,
        step: PreserveStep,
        ids: Option<(u32, u32)>,
        outcome: Outcome,
    ) -> PreserveNext {
        match (step, outcome) {
            (_, Err(Fault { kind: FaultKind::Lost, .. })) => PreserveRequest::Done { owned: false }.into(),
            (PreserveStep::Owner, Ok(_)) => self.keep_xattrs(self.keep.owner),
            (PreserveStep::Owner, Err(fault)) => {
                let refused = NotPreserved::Refused(NotKept::Owner, fault);
                let next = match ids {
                    Some((_, group)) if self.keep.owner && self.keep.group => {
                        PreserveRequest::Give((u32::MAX, group), PreserveStep::Group).into()
                    }
                    _ => self.keep_xattrs(false),
                };
                PreserveNext { unkept: Some(refused), ..next }
            }
            (PreserveStep::Group, _) => self.keep_xattrs(false),
            (PreserveStep::Xattrs { owned }, Ok(Done::Xattrs(xattrs))) => {
                PreserveRequest::SetXattrs { owned, xattrs }.into()
            }
            (PreserveStep::SetXattrs { owned }, Ok(_)) => PreserveRequest::Done { owned }.into(),
            (PreserveStep::Xattrs { owned } | PreserveStep::SetXattrs { owned }, outcome) => {
                let unkept = Some(NotPreserved::Refused(NotKept::Xattrs, fault_of(outcome)));
                PreserveNext { request: PreserveRequest::Done { owned }, unkept }
            }
        }
    }

    fn keep_xattrs(self, owned: bool) -> PreserveNext {
        if self.keep.xattr_kinds() == 0 {
            return PreserveRequest::Done { owned }.into();
        }
        if !self.have_xattrs {
            let request = PreserveRequest::Done { owned };
            return PreserveNext { request, unkept: Some(NotPreserved::NoXattrs) };
        }
        PreserveRequest::ReadXattrs { owned }.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDS: Option<(u32, u32)> = Some((7, 8));

    fn rules(have_xattrs: bool) -> PreserveRules {
        PreserveRules {
            keep: Keep { owner: true, group: true, xattrs: true, ..Keep::default() },
            have_xattrs,
        }
    }

    fn refused() -> Outcome {
        Err(Fault::other("no"))
    }

    fn xattrs() -> Xattrs {
        vec![(b"user.a".to_vec(), b"1".to_vec())]
    }

    /// The requests for one file, and what is not kept of it.
    fn trace(rules: PreserveRules, answer: impl Fn(PreserveStep) -> Outcome) -> (Vec<String>, Vec<NotKept>) {
        let (mut requests, mut unkept) = (Vec::new(), Vec::new());
        let mut next = rules.begin(IDS);
        loop {
            match next.unkept {
                Some(NotPreserved::NoXattrs) => unkept.push(NotKept::Xattrs),
                Some(NotPreserved::Refused(what, _)) => unkept.push(what),
                None => {}
            }
            let step = match next.request {
                PreserveRequest::Give(ids, step) => {
                    requests.push(format!("give {ids:?}"));
                    step
                }
                PreserveRequest::ReadXattrs { owned } => {
                    requests.push("read".to_owned());
                    PreserveStep::Xattrs { owned }
                }
                PreserveRequest::SetXattrs { owned, .. } => {
                    requests.push("set".to_owned());
                    PreserveStep::SetXattrs { owned }
                }
                PreserveRequest::Done { owned } => {
                    requests.push(format!("done, owned: {owned}"));
                    return (requests, unkept);
                }
            };
            next = rules.on_answer(step, IDS, answer(step));
        }
    }

    fn well(step: PreserveStep) -> Outcome {
        match step {
            PreserveStep::Xattrs { .. } => Ok(Done::Xattrs(xattrs())),
            _ => Ok(Done::Ok),
        }
    }

    #[test]
    fn attributes_follow_the_owner() {
        let (requests, unkept) = trace(rules(true), well);
        assert_eq!(requests, ["give (7, 8)", "read", "set", "done, owned: true"]);
        assert!(unkept.is_empty());
    }

    #[test]
    fn the_group_alone_is_tried_where_the_owner_is_refused() {
        let (requests, unkept) = trace(rules(true), |step| match step {
            PreserveStep::Owner | PreserveStep::Group => refused(),
            step => well(step),
        });
        let group = format!("give ({}, 8)", u32::MAX);
        assert_eq!(requests, ["give (7, 8)", &group, "read", "set", "done, owned: false"]);
        // The group was part of what is reported already.
        assert_eq!(unkept, [NotKept::Owner]);
    }

    #[test]
    fn attributes_that_cannot_be_read_set_or_had_are_reported() {
        let (requests, unkept) = trace(rules(false), well);
        assert_eq!((requests.last().map(String::as_str), requests.len()), (Some("done, owned: true"), 2));
        assert_eq!(unkept, [NotKept::Xattrs]);
        let (_, unkept) = trace(rules(true), |step| match step {
            PreserveStep::Xattrs { .. } => refused(),
            step => well(step),
        });
        assert_eq!(unkept, [NotKept::Xattrs]);
        let (requests, unkept) = trace(rules(true), |step| match step {
            PreserveStep::SetXattrs { .. } => refused(),
            step => well(step),
        });
        assert_eq!((requests.len(), unkept), (4, vec![NotKept::Xattrs]));
    }

    #[test]
    fn a_lost_connection_ends_it_without_a_report() {
        let lost = |_| Err(Fault { kind: FaultKind::Lost, text: "gone".to_owned() });
        let (requests, unkept) = trace(rules(true), lost);
        assert_eq!(requests, ["give (7, 8)", "done, owned: false"]);
        assert!(unkept.is_empty());
    }

    #[test]
    fn nothing_is_asked_where_nothing_is_known() {
        let rules = PreserveRules { keep: Keep { owner: true, ..Keep::default() }, have_xattrs: true };
        assert_eq!(rules.begin(None), PreserveRequest::Done { owned: false }.into());
    }
}
