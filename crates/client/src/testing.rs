//! A scripted user for unit tests.

use std::collections::VecDeque;

use crate::ui::{LogLevel, Notice, Secret, UserInterface};

/// Answers from a list, then acts as if there were no user; records all messages and prompts.
#[derive(Debug, Default)]
pub(crate) struct FakeUi {
    answers: VecDeque<String>,
    pub(crate) messages: Vec<String>,
    pub(crate) asked: Vec<String>,
    pub(crate) banners: Vec<String>,
}

impl FakeUi {
    pub(crate) fn answering(answers: &[&str]) -> Self {
        Self { answers: answers.iter().map(|&a| a.to_owned()).collect(), ..Self::default() }
    }
}

impl UserInterface for FakeUi {
    fn message(&mut self, _level: LogLevel, text: &str) {
        self.messages.push(text.to_owned());
    }

    fn banner(&mut self, text: &str) {
        self.banners.push(text.to_owned());
    }

    fn ask(&mut self, prompt: &str) -> Option<Secret> {
        self.asked.push(prompt.to_owned());
        self.answers.pop_front().map(Secret::new)
    }

    fn ask_secret(&mut self, prompt: &str) -> Option<Secret> {
        self.ask(prompt)
    }

    fn confirm(&mut self, prompt: &str) -> bool {
        self.ask(prompt).is_some_and(|answer| *answer == "yes")
    }

    fn notify(&mut self, text: &str) -> Option<Notice> {
        self.messages.push(text.to_owned());
        None
    }
}

/// A host key without a private half.
pub(crate) fn key() -> lh_crypto::PublicKey {
    crate::known::testing::key(7)
}
