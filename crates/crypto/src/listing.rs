//! Properties that the [registry](crate::registry) has for every algorithm: default lists, preference,
//! source.

/// Which ends offer an algorithm when the configuration does not name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offered {
    /// Client and server.
    ByBoth,
    /// The client only. Among signature algorithms: those of key types that no server has by default.
    ByClient,
    /// Neither end: it is used only where a configuration names it.
    OnRequest,
    /// Like [`OnRequest`](Self::OnRequest), for algorithms that only old equipment needs.
    Legacy,
    /// Never in a list of names: both ends must consent after authentication.
    AfterLogin,
}

/// Place of an algorithm in the lists of names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listing {
    /// Which ends offer it by default.
    pub offered: Offered,
    /// Preference: lower is better. Unique among the algorithms of a kind, in steps of ten so that a row can
    /// be inserted.
    pub rank: u16,
    /// The specification.
    pub source: &'static str,
}

impl Listing {
    /// Returns true when a default list contains the algorithm.
    pub const fn is_default(&self) -> bool {
        matches!(self.offered, Offered::ByBoth | Offered::ByClient)
    }

    /// Returns true when only old equipment needs the algorithm; no default list contains it.
    pub const fn is_legacy(&self) -> bool {
        matches!(self.offered, Offered::Legacy)
    }
}
