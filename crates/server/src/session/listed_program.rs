//! The program behind a channel, as `longhaul sessions` counts it.

use lh_session_list::Programs;

use super::command::Wanted;
use super::shared::Shared;

/// Kind of program.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Shell,
    Command,
    Subsystem,
}

impl Kind {
    const fn of(wanted: &Wanted) -> Self {
        match wanted {
            Wanted::Shell => Self::Shell,
            Wanted::Command(_) => Self::Command,
            Wanted::Subsystem(_) => Self::Subsystem,
        }
    }

    const fn count(self, programs: &mut Programs) -> &mut u32 {
        match self {
            Self::Shell => &mut programs.shells,
            Self::Command => &mut programs.commands,
            Self::Subsystem => &mut programs.subsystems,
        }
    }
}

/// What the monitor has been told about a channel's program.
#[derive(Debug, Default)]
pub(super) struct ListedProgram(Option<Kind>);

impl ListedProgram {
    /// Tells the monitor that a program runs.
    pub(super) fn start(&mut self, wanted: &Wanted, shared: &Shared) {
        let kind = Kind::of(wanted);
        self.0 = Some(kind);
        shared.change_programs(|programs| *kind.count(programs) += 1);
    }

    /// Tells the monitor that the program has ended, or has no channel any more.
    pub(super) fn end(&mut self, shared: &Shared) {
        if let Some(kind) = self.0.take() {
            shared.change_programs(|programs| {
                let count = kind.count(programs);
                *count = count.saturating_sub(1);
            });
        }
    }
}
