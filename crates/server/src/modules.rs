//! Messages between the monitor and the process that runs PAM's modules.
//!
//! The modules run in the user session process while it is still root's. It has no host keys and has read
//! nothing from the network. What a module sets for a session (limits, keyrings, name spaces, the audit id)
//! is inherited by all its programs. The monitor sends orders and waits for reports, never longer than
//! `LoginGraceTime`.

use lh_wire::{Reader, WireError, Writer};
use zeroize::Zeroizing;

use crate::monitor_ipc::fields::text;

/// Largest number of prompts in one report: the limit of keyboard-interactive.
const MOST_QUESTIONS: u32 = 100;

/// A message to the user session process before it changes to the user's ids.
pub(crate) enum Order {
    /// The login is complete: the bytes of a [`Grant`](crate::grant::Grant). This is the last order.
    Grant(Zeroizing<Vec<u8>>),
    /// Start a transaction. No answer.
    Begin {
        /// Service name: a file in `/etc/pam.d`.
        service: String,
        user: String,
        /// The client's host: name or address.
        remote: String,
        /// The value of `SSH_CONNECTION`.
        connection: String,
    },
    /// Authenticate the user: with this password, or with a conversation.
    Authenticate { empty_allowed: bool, password: Option<Zeroizing<Vec<u8>>> },
    /// The user's answers to the prompts.
    Answers(Vec<Zeroizing<Vec<u8>>>),
    /// The user sends no answers: end the transaction.
    GiveUp,
    /// Check whether the account may be used now. `proofs` are the methods that succeeded, one on each line.
    Account { proofs: String },
}

/// A message from the process that runs PAM.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Report {
    /// Prompts for the user; the boolean says whether to echo the input.
    Ask(Vec<(String, bool)>),
    /// The operation has ended.
    Done {
        outcome: Outcome,
        /// The reason, for the log.
        why: String,
        /// Messages from modules for the user.
        said: String,
    },
}

/// How an operation of the modules ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Good,
    /// The account may be used, but its password is too old and must be changed.
    MustChange,
    Bad,
    /// A module or the service behind it does not answer, so the state of the account is unknown.
    Unavailable,
}

fn put_texts(out: &mut Vec<u8>, texts: &[&str]) {
    texts.iter().for_each(|text| out.put_string(text.as_bytes()));
}

impl Order {
    pub(crate) fn encode(&self) -> Zeroizing<Vec<u8>> {
        let room = match self {
            Self::Grant(grant) => grant.len() + 64,
            // Reserved in advance: a vector that grows leaves a copy of the secret behind.
            Self::Authenticate { password, .. } => {
                password.as_ref().map_or(0, |password| password.len()) + 64
            }
            Self::Answers(answers) => answers.iter().map(|answer| answer.len() + 4).sum::<usize>() + 64,
            _ => 4096,
        };
        let mut out = Zeroizing::new(Vec::with_capacity(room));
        match self {
            Self::Grant(grant) => {
                out.put_u8(0);
                out.put_string(grant);
            }
            Self::Begin { service, user, remote, connection } => {
                out.put_u8(1);
                put_texts(&mut out, &[service, user, remote, connection]);
            }
            Self::Authenticate { empty_allowed, password } => {
                out.put_u8(2);
                out.put_bool(*empty_allowed);
                crate::monitor_ipc::fields::put_option(
                    &mut out,
                    password.as_ref().map(|password| &password[..]),
                );
            }
            Self::Answers(answers) => {
                out.put_u8(3);
                out.put_u32(u32::try_from(answers.len()).unwrap_or(u32::MAX));
                answers.iter().for_each(|answer| out.put_string(answer));
            }
            Self::GiveUp => out.put_u8(4),
            Self::Account { proofs } => {
                out.put_u8(5);
                put_texts(&mut out, &[proofs]);
            }
        }
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let mut reader = Reader::new(bytes);
        let secret = |bytes: &[u8]| Zeroizing::new(bytes.to_vec());
        let order = match reader.u8()? {
            0 => Self::Grant(secret(reader.string()?)),
            1 => Self::Begin {
                service: text(&mut reader)?,
                user: text(&mut reader)?,
                remote: text(&mut reader)?,
                connection: text(&mut reader)?,
            },
            2 => Self::Authenticate {
                empty_allowed: reader.boolean()?,
                password: crate::monitor_ipc::fields::read_option(&mut reader)?.map(secret),
            },
            3 => {
                let mut answers = Vec::new();
                for _ in 0..reader.u32()? {
                    answers.push(secret(reader.string()?));
                }
                Self::Answers(answers)
            }
            4 => Self::GiveUp,
            5 => Self::Account { proofs: text(&mut reader)? },
            _ => return Err(WireError::Invalid { what: "kind of order" }),
        };
        reader.finish()?;
        Ok(order)
    }
}

impl Report {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Self::Ask(questions) => {
                out.put_u8(0);
                out.put_u32(u32::try_from(questions.len()).unwrap_or(u32::MAX));
                for (question, echo) in questions {
                    out.put_string(question.as_bytes());
                    out.put_bool(*echo);
                }
            }
            Self::Done { outcome, why, said } => {
                out.put_u8(1);
                out.put_u8(*outcome as u8);
                put_texts(&mut out, &[why, said]);
            }
        }
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let mut reader = Reader::new(bytes);
        let report = match reader.u8()? {
            0 => {
                let mut questions = Vec::new();
                let count = reader.u32()?;
                if count > MOST_QUESTIONS {
                    return Err(WireError::Invalid { what: "number of questions" });
                }
                for _ in 0..count {
                    questions.push((text(&mut reader)?, reader.boolean()?));
                }
                Self::Ask(questions)
            }
            1 => {
                let outcome = match reader.u8()? {
                    0 => Outcome::Good,
                    1 => Outcome::MustChange,
                    3 => Outcome::Unavailable,
                    _ => Outcome::Bad,
                };
                Self::Done { outcome, why: text(&mut reader)?, said: text(&mut reader)? }
            }
            _ => return Err(WireError::Invalid { what: "kind of report" }),
        };
        reader.finish()?;
        Ok(report)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_order_arrives() {
        let secret = |text: &[u8]| Zeroizing::new(text.to_vec());
        for order in [
            Order::Grant(secret(b"grant")),
            Order::Begin {
                service: "sshd".into(),
                user: "ada".into(),
                remote: "192.0.2.1".into(),
                connection: "192.0.2.1 1 192.0.2.2 22".into(),
            },
            Order::Authenticate { empty_allowed: true, password: Some(secret(b"x")) },
            Order::Authenticate { empty_allowed: false, password: None },
            Order::Answers(vec![secret(b"one"), secret(b"")]),
            Order::GiveUp,
            Order::Account { proofs: "password\n".into() },
        ] {
            let bytes = order.encode();
            assert_eq!(Order::decode(&bytes).unwrap().encode(), bytes);
            assert!(Order::decode(&bytes[..bytes.len() - 1]).is_err());
        }
    }

    /// A vector that grows leaves a copy behind that is not wiped.
    #[test]
    fn orders_with_secrets_never_grow() {
        for len in [0, 1, 63, 64, 5_000] {
            let secret = Zeroizing::new(vec![7; len]);
            let order = Order::Authenticate { empty_allowed: false, password: Some(secret.clone()) };
            assert_eq!(order.encode().capacity(), len + 64);
            let order = Order::Answers(vec![secret; 20]);
            assert_eq!(order.encode().capacity(), 20 * (len + 4) + 64);
        }
    }

    #[test]
    fn every_report_arrives() {
        for report in [
            Report::Ask(vec![("Password: ".into(), false), ("Name: ".into(), true)]),
            Report::Done { outcome: Outcome::MustChange, why: "old".into(), said: "hello\n".into() },
            Report::Done { outcome: Outcome::Unavailable, why: "away".into(), said: String::new() },
        ] {
            assert_eq!(Report::decode(&report.encode()).unwrap(), report);
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_answered(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Order::decode(&bytes);
            let _ = Report::decode(&bytes);
        }
    }
}
