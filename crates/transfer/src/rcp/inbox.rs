//! Bytes from the peer, taken a line or an answer at a time.

use bytes::{Buf, Bytes, BytesMut};

use super::record::LONGEST;
use super::violation::Violation;

/// The peer's answer to a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Answer {
    Fine,
    /// It could not do it; the copy goes on with the next file.
    Failed(Vec<u8>),
    /// It goes no further.
    Fatal(Vec<u8>),
}

/// Received data that are not handled yet. File data are not copied, only the records between them.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    pieces: std::collections::VecDeque<Bytes>,
    /// The beginning of a line or an answer.
    line: BytesMut,
}

impl Inbox {
    pub(super) fn push(&mut self, data: Bytes) {
        if !data.is_empty() {
            self.pieces.push_back(data);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Something of a line has come, and not its end.
    pub(super) fn mid_line(&self) -> bool {
        !self.line.is_empty()
    }

    /// Bytes that wait.
    pub(super) fn len(&self) -> usize {
        self.pieces.iter().map(Bytes::len).sum()
    }

    /// Up to `most` bytes of file data.
    pub(super) fn data(&mut self, most: u64) -> Option<Bytes> {
        let front = self.pieces.front_mut()?;
        let most = usize::try_from(most).unwrap_or(usize::MAX).min(front.len());
        let data = front.split_to(most);
        if front.is_empty() {
            self.pieces.pop_front();
        }
        Some(data)
    }

    fn byte(&mut self) -> Option<u8> {
        let front = self.pieces.front_mut()?;
        let byte = front.get_u8();
        if front.is_empty() {
            self.pieces.pop_front();
        }
        Some(byte)
    }

    /// The next line without its newline.
    pub(super) fn line(&mut self) -> Result<Option<Vec<u8>>, Violation> {
        while let Some(byte) = self.byte() {
            if byte == b'\n' {
                return Ok(Some(self.line.split().to_vec()));
            }
            if self.line.len() >= LONGEST {
                return Err(Violation::TooLong);
            }
            self.line.extend_from_slice(&[byte]);
        }
        Ok(None)
    }

    /// The next answer. What is too long is cut.
    pub(super) fn answer(&mut self) -> Option<Answer> {
        if self.line.is_empty() {
            match self.byte()? {
                0 => return Some(Answer::Fine),
                byte => self.line.extend_from_slice(&[byte]),
            }
        }
        while let Some(byte) = self.byte() {
            if byte != b'\n' && self.line.len() < LONGEST {
                self.line.extend_from_slice(&[byte]);
                continue;
            }
            let line = self.line.split();
            return Some(match line.split_first() {
                Some((1, text)) => Answer::Failed(text.to_vec()),
                Some((2, text)) => Answer::Fatal(text.to_vec()),
                // Not part of the protocol: most likely a shell's message.
                _ => Answer::Fatal(line.to_vec()),
            });
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_come_in_any_pieces() {
        let bytes = b"\0\x01scp: no\n\0\x02over\nwhat?\n";
        for size in 1..bytes.len() {
            let (mut inbox, mut answers) = (Inbox::default(), Vec::new());
            for piece in bytes.chunks(size) {
                inbox.push(Bytes::copy_from_slice(piece));
                answers.extend(std::iter::from_fn(|| inbox.answer()));
            }
            let (failed, fatal) = (b"scp: no".to_vec(), b"over".to_vec());
            let expected = [
                Answer::Fine,
                Answer::Failed(failed),
                Answer::Fine,
                Answer::Fatal(fatal),
                Answer::Fatal(b"what?".to_vec()),
            ];
            assert_eq!(answers, expected);
            assert!(inbox.is_empty() && !inbox.mid_line());
        }
    }

    #[test]
    fn a_line_without_end_is_refused() {
        let mut inbox = Inbox::default();
        inbox.push(Bytes::from(vec![b'C'; LONGEST + 1]));
        assert_eq!(inbox.line(), Err(Violation::TooLong));
        let mut inbox = Inbox::default();
        inbox.push(Bytes::from(vec![1; 2 * LONGEST]));
        assert!(matches!(inbox.answer(), Some(Answer::Failed(_))));
    }
}
