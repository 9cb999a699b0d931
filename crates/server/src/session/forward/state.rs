//! What a connection's forwards keep.

use std::cell::RefCell;
use std::rc::Rc;

use lh_driver::{ControlCx, Family, Resolver, SourceId};

use super::offers::{Asked, Offer};
use super::requests::Listen;
use crate::session::shared::Shared;

/// The forwards of one connection.
pub(crate) struct Forwards {
    pub(super) shared: Rc<Shared>,
    pub(super) resolver: Resolver,
    pub(super) family: Family,
    pub(super) listeners: Vec<Listener>,
    /// Number of requested listeners whose names are being looked up, or whose ports another session has.
    pub(super) pending: usize,
    /// What other sessions of the user have asked for while this one waits.
    pub(super) asked: Rc<RefCell<Asked>>,
    /// What the client does not know yet: names of listeners that other sessions have got.
    pub(super) lost: Vec<String>,
}

impl Forwards {
    pub(crate) fn new(shared: Rc<Shared>) -> Self {
        use lh_config::enums::AddressFamily;
        let family = match shared.settings.address_family.value {
            AddressFamily::Any => Family::Any,
            AddressFamily::Inet => Family::Inet,
            AddressFamily::Inet6 => Family::Inet6,
        };
        Self {
            shared,
            resolver: Resolver::new(),
            family,
            listeners: Vec::new(),
            pending: 0,
            asked: Rc::default(),
            lost: Vec::new(),
        }
    }
}

/// A listener that the client has requested.
pub(super) struct Listener {
    pub(super) what: Listen,
    /// The listener's port, where the client requested any free one.
    pub(super) port: u16,
    pub(super) sources: Vec<SourceId>,
    /// How other sessions of the user find the listener while this one waits.
    pub(super) offers: Vec<Offer>,
    /// The source of `offers`, while the session waits.
    pub(super) offered: Option<SourceId>,
}

impl Listener {
    pub(super) fn close(self, cx: &mut ControlCx<'_>) {
        self.sources.into_iter().chain(self.offered).for_each(|source| cx.remove_source(source));
    }
}
