//! Files whose written part is worth nothing are copied once more from their start.

use crate::Event;
use crate::channels::Reopening;
use crate::end::{Done, Info, Outcome};
use crate::engine::Engine;
use crate::names::display_name;
use crate::table::Key;

/// How often a file is copied again. Once is enough unless channels are opened meanwhile.
const MOST_REDONE: u8 = 5;

const EMPTIES: &str = "the server empties a file that is opened once more";

impl Engine {
    /// What is written of a file is worth nothing, because of `why`: it is copied from its start once more.
    pub(super) fn copy_again(&mut self, key: Key, why: &str) {
        let Some(file) = self.tasks.files.get_mut(key).filter(|file| !file.faults.failed) else { return };
        if file.item.redone >= MOST_REDONE {
            let path = display_name(&file.item.target);
            let text = format!("\"{path}\" is not copied: {why}, again and again");
            return self.file_failed_with(key, text);
        }
        file.faults.failed = true;
        file.faults.undone = true;
        file.requests.again.clear();
    }

    /// The size of a file being written, behind its OPEN on a second channel.
    pub(super) fn size_reopened(&mut self, key: Key, outcome: &Outcome) {
        if self.channels.reopening != Reopening::Asking(key) {
            return;
        }
        let kept = matches!(outcome, Ok(Done::Info(Info { size: Some(1..), .. })));
        self.channels.reopening = if kept { Reopening::Keeps } else { Reopening::Never };
        if !kept {
            self.report.event(Event::Notice { text: format!("{EMPTIES}: its data go over one channel") });
            self.copy_again(key, EMPTIES);
        }
    }
}
