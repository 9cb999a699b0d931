//! The length field of every message.

use zeroize::{Zeroize as _, Zeroizing};

use crate::{MAX_MESSAGE, ProtocolError};

/// Returns a message in wire form: its length, then its body.
pub fn frame(body: &[u8]) -> Zeroizing<Vec<u8>> {
    let mut framed = Zeroizing::new(Vec::with_capacity(4 + body.len()));
    framed.extend_from_slice(&u32::try_from(body.len()).unwrap_or(u32::MAX).to_be_bytes());
    framed.extend_from_slice(body);
    framed
}

/// Splits a stream of bytes into messages. Holds at most one message and the bytes read after it.
#[derive(Default)]
pub struct Frames {
    buffer: Zeroizing<Vec<u8>>,
}

impl Frames {
    /// Adds bytes from the socket. Callers must extract all messages before they read on; this bounds the
    /// memory.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.buffer.len() + bytes.len() > self.buffer.capacity() {
            // Grown manually: the old buffer may contain a private key and must be wiped.
            let capacity = (self.buffer.len() + bytes.len()).next_power_of_two();
            let mut larger = Zeroizing::new(Vec::with_capacity(capacity));
            larger.extend_from_slice(&self.buffer);
            self.buffer = larger;
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// Returns the body of the next message if it is complete.
    ///
    /// # Errors
    /// [`ProtocolError::Length`]: the stream cannot be continued, and the connection must end.
    pub fn next_body(&mut self) -> Result<Option<Zeroizing<Vec<u8>>>, ProtocolError> {
        let Some(length) = self.buffer.first_chunk::<4>().map(|bytes| u32::from_be_bytes(*bytes)) else {
            return Ok(None);
        };
        let size = length as usize;
        if size == 0 || size > MAX_MESSAGE {
            return Err(ProtocolError::Length(length));
        }
        let Some(body) = self.buffer.get(4..4 + size).map(|body| Zeroizing::new(body.to_vec())) else {
            return Ok(None);
        };
        let whole = 4 + size;
        self.buffer.copy_within(whole.., 0);
        let left = self.buffer.len() - whole;
        if let Some(rest) = self.buffer.get_mut(left..) {
            rest.zeroize();
        }
        self.buffer.truncate(left);
        Ok(Some(body))
    }

    /// Returns the number of buffered bytes.
    pub fn held(&self) -> usize {
        self.buffer.len()
    }
}
