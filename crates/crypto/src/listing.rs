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
    /// NIST approves the algorithm, and AWS-LC's FIPS module computes it: builds with the feature `fips`
    /// contain it.
    pub approved: bool,
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

    /// Returns true when this build contains the algorithm: every build without the feature `fips` does.
    pub const fn is_built(&self) -> bool {
        self.approved || !crate::FIPS
    }

    /// Marks a row as [`approved`](Self::approved).
    pub(crate) const fn approved(self) -> Self {
        Self { approved: true, ..self }
    }
}

/// Returns the rows that this build contains.
macro_rules! built {
    ($row:ty, $rows:ident) => {{
        const COUNT: usize = {
            let (mut count, mut row) = (0, 0);
            while row < $rows.len() {
                count += $rows[row].listing.is_built() as usize;
                row += 1;
            }
            count
        };
        const BUILT: [$row; COUNT] = {
            let mut built = [$rows[0]; COUNT];
            let (mut place, mut row) = (0, 0);
            while row < $rows.len() {
                if $rows[row].listing.is_built() {
                    built[place] = $rows[row];
                    place += 1;
                }
                row += 1;
            }
            built
        };
        &BUILT
    }};
}

/// Returns rows sorted by rank.
macro_rules! by_rank {
    ($row:ty, $rows:ident) => {{
        const SORTED: [$row; $rows.len()] = {
            let mut sorted = [$rows[0]; $rows.len()];
            let mut row = 0;
            while row < $rows.len() {
                let (mut place, mut other) = (0, 0);
                while other < $rows.len() {
                    if $rows[other].listing.rank < $rows[row].listing.rank {
                        place += 1;
                    }
                    other += 1;
                }
                sorted[place] = $rows[row];
                row += 1;
            }
            sorted
        };
        &SORTED
    }};
}

pub(crate) use {built, by_rank};
