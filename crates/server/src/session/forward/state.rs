//! What a connection's forwards keep.

use std::rc::Rc;

use lh_driver::{Family, Resolver, SourceId};

use super::offers::{Offer, Taken};
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
    /// While the session waits: its listeners are offered to other sessions of the user.
    pub(super) offers: Option<SourceId>,
    /// Offers that other sessions have asked for since the last turn.
    pub(super) taken: Taken,
    /// The session waits, and its listeners are offered or will be.
    pub(super) is_away: bool,
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
            offers: None,
            taken: Taken::default(),
            is_away: false,
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
}
