//! `keyboard-interactive` (RFC 4256).

use lh_auth::client::Prompt;
use zeroize::Zeroizing;

use super::exchange::Exchange;
use crate::log::{Log, sanitise};

/// The method's state during one login.
#[derive(Default)]
pub(super) struct Interactive {
    /// Number of requests since the beginning, or since a partial success.
    requests: u32,
    /// The last request contained a prompt.
    was_asked: bool,
}

impl Interactive {
    /// Starts the method. Returns false if the server should not be asked again.
    pub(super) fn offer(&mut self, exchange: &mut Exchange<'_>) -> bool {
        // Ends the loop with a server that never asks anything.
        if self.requests >= exchange.config.password_prompts || (self.requests > 0 && !self.was_asked) {
            return false;
        }
        self.requests += 1;
        self.was_asked = false;
        exchange
            .machine
            .keyboard_interactive(&exchange.config.kbd_interactive_devices, exchange.packets.sink());
        true
    }

    /// Shows the server's prompts and sends the user's answers.
    pub(super) fn answer(
        &mut self,
        name: &str,
        instruction: &str,
        prompts: &[Prompt],
        exchange: &mut Exchange<'_>,
        log: &mut Log<'_>,
    ) {
        for text in [name, instruction] {
            let text = sanitise(text);
            if !text.trim().is_empty() {
                log.info(text.trim_end_matches('\n'));
            }
        }
        let mut answers: Vec<Zeroizing<String>> = Vec::with_capacity(prompts.len());
        for prompt in prompts {
            self.was_asked = true;
            let text =
                format!("({}@{}) {}", exchange.config.user, exchange.shown_host(), sanitise(&prompt.text));
            let answer = if prompt.echo { log.ask(&text) } else { log.ask_secret(&text) };
            // With no way to ask the user, an empty answer makes the server continue to its refusal.
            answers.push(answer.unwrap_or_default());
        }
        let answers: Vec<&[u8]> = answers.iter().map(|answer| answer.as_bytes()).collect();
        exchange.machine.responses(&answers, exchange.packets.sink());
    }
}
