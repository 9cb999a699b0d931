//! The program of a channel, as counted by `longhaul sessions`.

use lh_session_list::Programs;

use super::command::RequestedProgram;
use super::shared::Shared;

/// A kind of program that is counted.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Shell,
    Command,
    Subsystem,
}

impl Kind {
    const fn of(wanted: &RequestedProgram) -> Self {
        match wanted {
            RequestedProgram::Shell => Self::Shell,
            RequestedProgram::Command(_) => Self::Command,
            RequestedProgram::Subsystem(_) => Self::Subsystem,
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

/// The kind of program that the monitor counts for a channel.
#[derive(Debug, Default)]
pub(super) struct ListedProgram(Option<Kind>);

impl ListedProgram {
    /// Reports to the monitor that a program runs.
    pub(super) fn start(&mut self, wanted: &RequestedProgram, shared: &Shared) {
        let kind = Kind::of(wanted);
        self.0 = Some(kind);
        shared.change_programs(|programs| *kind.count(programs) += 1);
    }

    /// Reports to the monitor that the program has ended or lost its channel.
    pub(super) fn end(&mut self, shared: &Shared) {
        if let Some(kind) = self.0.take() {
            shared.change_programs(|programs| {
                let count = kind.count(programs);
                *count = count.saturating_sub(1);
            });
        }
    }
}
