//! Direction of a flow.

/// Direction of a flow, seen from this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    Up,
    Down,
}

impl Direction {
    pub(crate) const BOTH: [Self; 2] = [Self::Up, Self::Down];

    pub(crate) const fn other(self) -> Self {
        match self {
            Self::Up => Self::Down,
            Self::Down => Self::Up,
        }
    }

    /// The column of a table.
    pub(crate) const fn column(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Down => "down",
        }
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Up => "upload",
            Self::Down => "download",
        }
    }

    /// The end that sends.
    pub(crate) const fn sender(self) -> &'static str {
        match self {
            Self::Up => "this machine",
            Self::Down => "the server",
        }
    }

    /// The end that receives.
    pub(crate) const fn receiver(self) -> &'static str {
        match self {
            Self::Up => "the server",
            Self::Down => "this machine",
        }
    }
}
