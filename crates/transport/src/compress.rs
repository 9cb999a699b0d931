//! Payload compression (RFC 4253 section 6.2): `zlib`, and `zlib@openssh.com`, which starts after
//! authentication.
//!
//! There is one zlib stream per direction and key epoch, flushed at the end of every packet. The stream is
//! created with the first packet that it compresses. Packets that were queued before authentication and sent
//! after it (held back by a key exchange) therefore stay uncompressed.

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};
use lh_crypto::registry::{self, Starts};

use crate::TransportError;

/// zlib's default level, which OpenSSH uses too.
const LEVEL: u32 = 6;

/// When a direction starts to compress.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum When {
    #[default]
    Never,
    /// `zlib@openssh.com`.
    Authenticated,
    /// `zlib`.
    Always,
}

impl When {
    pub(crate) fn by_name(name: &str) -> Self {
        match registry::Compression::by_name(name).map(|method| method.starts) {
            Some(Starts::AtOnce) => Self::Always,
            Some(Starts::AfterLogin) => Self::Authenticated,
            Some(Starts::Never) | None => Self::Never,
        }
    }

    /// Returns true when a packet is compressed. `started`: the packet belongs to the time after
    /// authentication.
    pub(crate) fn applies(self, started: bool) -> bool {
        self == Self::Always || (self == Self::Authenticated && started)
    }
}

/// Compressor of the sending direction.
#[derive(Default)]
pub(crate) struct Deflater {
    pub(crate) when: When,
    stream: Option<Compress>,
}

impl Deflater {
    pub(crate) fn new(name: &str) -> Self {
        Self { when: When::by_name(name), stream: None }
    }

    pub(crate) const fn started(&self) -> bool {
        self.stream.is_some()
    }

    /// Compresses the payload and ends with a partial flush, so that the peer can decompress all of it.
    pub(crate) fn compress(&mut self, payload: &[u8]) -> Result<Vec<u8>, TransportError> {
        let stream = self.stream.get_or_insert_with(|| Compress::new(Compression::new(LEVEL), true));
        let mut out = Vec::with_capacity(payload.len() + payload.len() / 1000 + 64);
        let mut rest = payload;
        loop {
            let before = stream.total_in();
            stream
                .compress_vec(rest, &mut out, FlushCompress::Partial)
                .map_err(|_| TransportError::Caller("zlib refused to compress"))?;
            let taken = usize::try_from(stream.total_in() - before).unwrap_or(usize::MAX);
            rest = rest.get(taken..).unwrap_or_default();
            // The flush is complete when free capacity is left.
            if rest.is_empty() && out.len() < out.capacity() {
                return Ok(out);
            }
            out.reserve(1024);
        }
    }
}

/// Decompressor of the receiving direction.
#[derive(Default)]
pub(crate) struct Inflater {
    pub(crate) when: When,
    stream: Option<Decompress>,
}

impl Inflater {
    pub(crate) fn new(name: &str) -> Self {
        Self { when: When::by_name(name), stream: None }
    }

    pub(crate) const fn started(&self) -> bool {
        self.stream.is_some()
    }

    /// Decompresses the payload; fails when the result exceeds `limit` bytes.
    pub(crate) fn decompress(&mut self, payload: &[u8], limit: usize) -> Result<Vec<u8>, TransportError> {
        let stream = self.stream.get_or_insert_with(|| Decompress::new(true));
        let mut out = Vec::with_capacity((payload.len() * 3).clamp(512, limit.max(512)));
        let mut rest = payload;
        loop {
            let before = stream.total_in();
            let had = out.len();
            let status = stream
                .decompress_vec(rest, &mut out, FlushDecompress::Sync)
                .map_err(|_| TransportError::Compression("corrupt data"))?;
            if status == Status::StreamEnd {
                return Err(TransportError::Compression("stream ended"));
            }
            let taken = usize::try_from(stream.total_in() - before).unwrap_or(usize::MAX);
            rest = rest.get(taken..).unwrap_or_default();
            if out.len() > limit {
                return Err(TransportError::Compression("packet too large"));
            }
            if out.len() < out.capacity() {
                // No more output is possible, so the input must be used up.
                if rest.is_empty() {
                    return Ok(out);
                }
                if taken == 0 && out.len() == had {
                    return Err(TransportError::Compression("corrupt data"));
                }
                continue;
            }
            out.reserve(out.len().max(1024));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn compressed_packets_round_trip(packets in proptest::collection::vec(proptest::collection::vec(0u8..4, 1..4000), 1..20)) {
            let (mut deflater, mut inflater) = (Deflater::new("zlib"), Inflater::new("zlib"));
            for packet in packets {
                let compressed = deflater.compress(&packet).unwrap();
                prop_assert_eq!(inflater.decompress(&compressed, 1 << 18).unwrap(), packet);
            }
        }

        #[test]
        fn incompressible_packets_round_trip(packet in proptest::collection::vec(any::<u8>(), 1..40_000)) {
            let (mut deflater, mut inflater) = (Deflater::new("zlib"), Inflater::new("zlib"));
            let compressed = deflater.compress(&packet).unwrap();
            prop_assert_eq!(inflater.decompress(&compressed, 1 << 18).unwrap(), packet);
        }

        #[test]
        fn decompressing_any_bytes_stays_below_the_limit(bytes in proptest::collection::vec(any::<u8>(), 0..500)) {
            let mut inflater = Inflater::new("zlib");
            if let Ok(out) = inflater.decompress(&bytes, 10_000) {
                prop_assert!(out.len() <= 10_000);
            }
        }
    }

    #[test]
    fn decompression_bomb_is_refused() {
        let mut deflater = Deflater::new("zlib");
        let bomb = deflater.compress(&vec![0; 10 << 20]).unwrap();
        assert!(bomb.len() < 32 * 1024);
        let error = Inflater::new("zlib").decompress(&bomb, 256 * 1024).unwrap_err();
        assert_eq!(error, TransportError::Compression("packet too large"));
    }
}
