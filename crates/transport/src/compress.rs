//! Payload compression (RFC 4253 section 6.2): `zlib`, and `zlib@openssh.com`, which starts after
//! authentication.
//!
//! There is one zlib stream per direction and key epoch, flushed at the end of every packet. The stream is
//! created with the first packet that it compresses. Packets that were queued before authentication and sent
//! after it (held back by a key exchange) therefore stay uncompressed.
//!
//! All channels of a connection share the stream, and the length of a packet depends on the text before it.
//! An attacker who injects text into one channel and observes packet lengths could guess the text of another
//! channel. Therefore the compressor forgets its history when the next packet belongs to another channel (a
//! full flush, RFC 1951 section 3.2.3 with an empty block). References never reach from one channel into
//! another. Each flush costs five bytes, and any decompressor reads it. OpenSSH 10.6 avoids the attack by
//! using no references at all.

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};
use lh_crypto::registry::{self, Starts};

use lh_wire::msg;

use crate::TransportError;

/// zlib's default level, which OpenSSH uses too.
const LEVEL: u32 = 6;

/// When a direction starts to compress.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum CompressionStart {
    #[default]
    Never,
    /// From the end of authentication on: `zlib@openssh.com`.
    Authenticated,
    /// From the first NEWKEYS on: `zlib`.
    Always,
}

impl CompressionStart {
    pub(crate) fn by_name(name: &str) -> Self {
        match registry::Compression::by_name(name).map(|method| method.starts) {
            Some(Starts::AtOnce) => Self::Always,
            Some(Starts::AfterLogin) => Self::Authenticated,
            Some(Starts::Never) | None => Self::Never,
        }
    }

    /// Returns true when a packet is compressed. `started`: the packet is sent after authentication.
    pub(crate) fn applies(self, started: bool) -> bool {
        self == Self::Always || (self == Self::Authenticated && started)
    }
}

/// Payload bytes of one direction since the last key exchange, before and after compression.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CompressionTotals {
    /// Bytes of payloads before compression.
    pub plain: u64,
    /// Bytes after compression.
    pub compressed: u64,
}

/// Compressor of the sending direction.
#[derive(Default)]
pub(crate) struct Deflater {
    pub(crate) when: CompressionStart,
    stream: Option<Compress>,
    /// Owner of the text in the stream's history, to which the next packet may refer.
    content: Content,
}

/// Owner of a payload's text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Content {
    /// The connection itself: logins, global requests, opening and closing of channels.
    #[default]
    Connection,
    /// The channel with this number at the peer.
    Channel([u8; 4]),
}

impl Content {
    /// Returns the owner of a payload's text. `None` for messages without text, which may come between those
    /// of one channel.
    fn of(payload: &[u8]) -> Option<Self> {
        use lh_wire::Message as _;
        let channel = || payload.get(1..5).and_then(|number| number.try_into().ok());
        match *payload.first()? {
            msg::ChannelData::NUMBER | msg::ChannelExtendedData::NUMBER | msg::ChannelRequest::NUMBER => {
                Some(channel().map_or(Self::Connection, Self::Channel))
            }
            msg::ChannelWindowAdjust::NUMBER
            | msg::ChannelEof::NUMBER
            | msg::ChannelSuccess::NUMBER
            | msg::ChannelFailure::NUMBER => None,
            // After a channel has ended, a new channel may get its number.
            _ => Some(Self::Connection),
        }
    }
}

impl Deflater {
    pub(crate) fn new(name: &str) -> Self {
        Self { when: CompressionStart::by_name(name), stream: None, content: Content::Connection }
    }

    pub(crate) const fn started(&self) -> bool {
        self.stream.is_some()
    }

    pub(crate) fn totals(&self) -> CompressionTotals {
        let stream = self.stream.as_ref();
        stream.map_or_else(CompressionTotals::default, |stream| CompressionTotals {
            plain: stream.total_in(),
            compressed: stream.total_out(),
        })
    }

    /// Compresses the payload and ends with a partial flush, so that the peer can decompress all of it.
    /// Nothing in the result refers to text of another channel.
    pub(crate) fn compress(&mut self, payload: &[u8]) -> Result<Vec<u8>, TransportError> {
        let content = Content::of(payload).unwrap_or(self.content);
        let is_other = std::mem::replace(&mut self.content, content) != content;
        let stream = self.stream.get_or_insert_with(|| Compress::new(Compression::new(LEVEL), true));
        let mut out = Vec::with_capacity(payload.len() + payload.len() / 1000 + 64);
        let mut rest = payload;
        if is_other && stream.total_in() > 0 {
            stream
                .compress_vec(&[], &mut out, FlushCompress::Full)
                .map_err(|_| TransportError::Caller("zlib refused to flush"))?;
        }
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
    pub(crate) when: CompressionStart,
    stream: Option<Decompress>,
}

impl Inflater {
    pub(crate) fn new(name: &str) -> Self {
        Self { when: CompressionStart::by_name(name), stream: None }
    }

    pub(crate) const fn started(&self) -> bool {
        self.stream.is_some()
    }

    pub(crate) fn totals(&self) -> CompressionTotals {
        let stream = self.stream.as_ref();
        stream.map_or_else(CompressionTotals::default, |stream| CompressionTotals {
            plain: stream.total_out(),
            compressed: stream.total_in(),
        })
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
    use lh_wire::Message as _;
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

    /// A message of this kind for a channel.
    fn message(kind: u8, channel: u8, text: &[u8]) -> Vec<u8> {
        [&[kind, 0, 0, 0, channel], text].concat()
    }

    #[test]
    fn packets_do_not_refer_to_other_channels() {
        let (mut deflater, mut inflater) = (Deflater::new("zlib"), Inflater::new("zlib"));
        let mut random = 1_u32;
        let text: Vec<u8> = std::iter::repeat_with(|| {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            random.to_be_bytes()[0]
        })
        .take(1000)
        .collect();
        let mut length = |payload: &[u8]| {
            let compressed = deflater.compress(payload).unwrap();
            assert_eq!(inflater.decompress(&compressed, 1 << 18).unwrap(), payload);
            compressed.len()
        };
        assert!(length(&message(msg::ChannelData::NUMBER, 1, &text)) > 1000);
        assert!(
            length(&message(msg::ChannelData::NUMBER, 1, &text)) < 100,
            "the same channel's text is referred to"
        );
        assert!(length(&message(msg::ChannelData::NUMBER, 2, &text)) > 1000, "another channel's text is not");
        assert!(
            length(&message(msg::ChannelData::NUMBER, 1, &text)) > 1000,
            "nor is what was sent before that"
        );
        assert!(length(&message(msg::ChannelData::NUMBER, 1, &text)) < 100);
        length(&message(msg::ChannelWindowAdjust::NUMBER, 2, &[0, 1, 0, 0]));
        length(&message(msg::ChannelEof::NUMBER, 2, b""));
        assert!(
            length(&message(msg::ChannelExtendedData::NUMBER, 1, &text)) < 100,
            "messages without text change nothing"
        );
        length(&message(msg::ChannelClose::NUMBER, 1, b""));
        assert!(
            length(&message(msg::ChannelData::NUMBER, 1, &text)) > 1000,
            "the number has been given to another channel"
        );
        assert!(length(&[&[msg::GlobalRequest::NUMBER][..], &text].concat()) > 1000);
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
