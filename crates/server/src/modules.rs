//! What the monitor and the process that runs PAM say to each other.
//!
//! The modules run in the user session process while it is still root's: it has no host keys and has read
//! nothing from the network, and what a module sets for a session (limits, keyrings, name spaces, the audit
//! id) holds for everything that descends from it. The monitor orders and waits, never longer than
//! `LoginGraceTime`.

use lh_wire::{Reader, WireError, Writer};
use zeroize::Zeroizing;

use crate::monitor_ipc::fields::text;

/// Most questions in one report: the limit of keyboard-interactive.
const MOST_QUESTIONS: u32 = 100;

/// To the user session process, before it becomes the user's.
pub(crate) enum Order {
    /// The user has logged in: the bytes of a [`Grant`](crate::grant::Grant). The last order.
    Grant(Zeroizing<Vec<u8>>),
    /// Start a transaction. No answer.
    Begin {
        /// File of `/etc/pam.d`.
        service: String,
        user: String,
        /// Where the user comes from: name or address.
        remote: String,
        /// What `SSH_CONNECTION` says.
        connection: String,
    },
    /// Authenticate the user: with a password, or by asking.
    Authenticate { empty_allowed: bool, password: Option<Zeroizing<Vec<u8>>> },
    /// What the user answered.
    Answers(Vec<Zeroizing<Vec<u8>>>),
    /// No answer will come: end the transaction.
    GiveUp,
    /// Find out whether the account may be used now. `proofs` are the methods that succeeded, a line each.
    Account { proofs: String },
}

/// From that process.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Report {
    /// Prompts for the user; the second value says whether to show what is typed.
    Ask(Vec<(String, bool)>),
    /// It is done.
    Done {
        outcome: Outcome,
        /// For the log.
        why: String,
        /// What modules want the user to read.
        said: String,
    },
}

/// How an operation of the modules ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Good,
    /// The account is in order but for its password, which is too old.
    MustChange,
    Bad,
    /// A module or what it asks does not answer: whether the account is in order is not known.
    Unavailable,
}

fn put_texts(out: &mut Vec<u8>, texts: &[&str]) {
    texts.iter().for_each(|text| out.put_string(text.as_bytes()));
}

impl Order {
    pub(crate) fn encode(&self) -> Zeroizing<Vec<u8>> {
        let room = match self {
            Self::Grant(grant) => grant.len() + 64,
            // Secrets must not be left behind by a vector that grows.
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
