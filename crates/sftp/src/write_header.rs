//! The bytes of a WRITE request before its data.

use lh_wire::Writer;

use crate::PacketType;

/// Returns the size of a whole WRITE with a handle of `handle_len` bytes, its length field included.
pub const fn write_size(handle_len: usize, data_len: usize) -> usize {
    // Length, type, id, length of the handle; offset, length of the data.
    (4 + 1 + 4 + 4) + handle_len + (8 + 4) + data_len
}

/// The header of a WRITE request: all bytes before the data.
#[derive(Debug, Clone)]
pub struct WriteHeader {
    id: u32,
    /// All bytes of the header. [`WriteHeader::bytes`] fills in the two lengths.
    bytes: Vec<u8>,
}

impl WriteHeader {
    pub(crate) fn new(id: u32, handle: &[u8], offset: u64) -> Self {
        let mut bytes = Vec::with_capacity(write_size(handle.len(), 0));
        bytes.put_u32(0);
        bytes.put_u8(PacketType::WRITE.0);
        bytes.put_u32(id);
        bytes.put_string(handle);
        bytes.put_u64(offset);
        bytes.put_u32(0);
        Self { id, bytes }
    }

    /// Returns the id of the request.
    pub const fn id(&self) -> u32 {
        self.id
    }

    /// Returns the size of the header in bytes.
    pub fn size(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the header for `data_len` bytes of data, which must follow it in the stream.
    pub fn bytes(&mut self, data_len: usize) -> &[u8] {
        let data_len = u32::try_from(data_len).unwrap_or(u32::MAX);
        let behind = u32::try_from(self.bytes.len() - 4).unwrap_or(u32::MAX);
        if let Some(slot) = self.bytes.first_chunk_mut::<4>() {
            *slot = behind.saturating_add(data_len).to_be_bytes();
        }
        if let Some(slot) = self.bytes.last_chunk_mut::<4>() {
            *slot = data_len.to_be_bytes();
        }
        &self.bytes
    }
}
