//! Answers of a server to small messages that it does not know.

/// What is known of them over a connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Answers {
    /// Answers that are still to come.
    pub(crate) pending: usize,
    /// One has come.
    has_answered: bool,
    /// The server left the messages unanswered for as long as was waited for one.
    has_been_silent: bool,
}

impl Answers {
    /// Notes the end of a task: answers that are to come now, and whether one to a message of the task came.
    pub(crate) const fn note(&mut self, pending: usize, has_answered: bool) {
        self.has_answered |= has_answered;
        self.pending = pending;
    }

    /// Notes that an answer was waited for, over a connection that still works.
    pub(crate) const fn note_wait(&mut self) {
        self.has_been_silent = true;
    }

    /// Returns whether the server answers no such messages. One late answer shows that it does.
    pub(crate) const fn is_mute(self) -> bool {
        self.has_been_silent && !self.has_answered
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_with_a_late_answer_is_not_mute() {
        let mut answers = Answers::default();
        answers.note(1, false);
        // A connection that broke off meanwhile.
        assert!(!answers.is_mute());
        answers.note_wait();
        assert!(answers.is_mute());
        // The answer comes after all.
        answers.note(0, true);
        assert!(!answers.is_mute());
        // A later one takes long again.
        answers.note(1, false);
        answers.note_wait();
        assert!(!answers.is_mute());
    }
}
