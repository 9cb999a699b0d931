//! Fingerprints of keys and their randomart pictures.

use crate::Hash;
use base64ct::{Base64Unpadded, Encoding};
use md5::{Digest as _, Md5};

/// Hash of a fingerprint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FingerprintHash {
    /// `SHA256:` and unpadded base64.
    Sha256,
    /// `MD5:` and hex with colons.
    Md5,
    /// `SHA1:` and unpadded base64.
    Sha1,
    /// `SHA384:` and unpadded base64.
    Sha384,
    /// `SHA512:` and unpadded base64.
    Sha512,
}

impl FingerprintHash {
    /// Every hash.
    pub const ALL: [Self; 5] = [Self::Sha256, Self::Md5, Self::Sha1, Self::Sha384, Self::Sha512];

    /// Returns the hash with this name, in upper or lower case.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|hash| hash.name().eq_ignore_ascii_case(name))
    }

    /// Returns the name that precedes a fingerprint.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sha256 => "SHA256",
            Self::Md5 => "MD5",
            Self::Sha1 => "SHA1",
            Self::Sha384 => "SHA384",
            Self::Sha512 => "SHA512",
        }
    }

    /// Decodes the base64 of a fingerprint (the text after `SHA256:`), padded or not.
    pub fn decode(text: &str) -> Option<Vec<u8>> {
        // No digest is longer; the text may be untrusted.
        if text.len() > 100 {
            return None;
        }
        Base64Unpadded::decode_vec(text.trim_end_matches('=')).ok()
    }

    fn digest(self, blob: &[u8]) -> Vec<u8> {
        let hash = match self {
            Self::Md5 => return Md5::digest(blob).to_vec(),
            Self::Sha1 => Hash::Sha1,
            Self::Sha256 => Hash::Sha256,
            Self::Sha384 => Hash::Sha384,
            Self::Sha512 => Hash::Sha512,
        };
        hash.digest(&[blob]).as_ref().to_vec()
    }
}

pub(super) fn text(hash: FingerprintHash, blob: &[u8]) -> String {
    let digest = hash.digest(blob);
    let encoded = match hash {
        FingerprintHash::Md5 => digest.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(":"),
        _ => Base64Unpadded::encode_string(&digest),
    };
    format!("{}:{encoded}", hash.name())
}

/// Returns the Bubble Babble encoding of the SHA-1 digest: five letters for two bytes. Vowels and consonants
/// alternate, so that it can be spoken, and the vowels contain a running checksum.
pub(super) fn bubblebabble(blob: &[u8]) -> String {
    const VOWELS: &[u8; 6] = b"aeiouy";
    const CONSONANTS: &[u8; 17] = b"bcdfghklmnprstvzx";
    let digest = Hash::Sha1.digest(&[blob]);
    let digest = digest.as_ref();
    let vowel = |at: usize| char::from(VOWELS[at % 6]);
    let consonant = |at: usize| char::from(CONSONANTS[at % 17]);
    let mut sum = 1usize;
    let mut text = String::from("x");
    let mut pairs = digest.chunks_exact(2);
    for pair in &mut pairs {
        let (first, second) = (usize::from(pair[0]), usize::from(pair[1]));
        text.push(vowel((first >> 6 & 3) + sum));
        text.push(consonant(first >> 2 & 15));
        text.push(vowel((first & 3) + sum / 6));
        text.push(consonant(second >> 4 & 15));
        text.push('-');
        text.push(consonant(second & 15));
        sum = (sum * 5 + first * 7 + second) % 36;
    }
    // The digest has an even length, so the last group is the checksum alone.
    text.push(vowel(sum % 6));
    text.push(consonant(16));
    text.push(vowel(sum / 6));
    text.push('x');
    text
}

/// Draws the "drunken bishop" picture. A bishop starts in the middle of a 17 × 9 board and moves diagonally
/// by two bits of the hash at a time, low bits first, sliding along walls. Each square shows how often it was
/// visited.
pub(super) fn randomart(hash: FingerprintHash, blob: &[u8], title: &str) -> String {
    const WIDTH: usize = 17;
    const HEIGHT: usize = 9;
    // Marks for 0, 1, 2, … visits; the start and the end of the walk have their own marks.
    const MARKS: &[u8] = b" .o+=*BOX@%&#/^";
    let mut visits = [[0usize; WIDTH]; HEIGHT];
    let (mut x, mut y) = (WIDTH / 2, HEIGHT / 2);
    let start = (x, y);
    for byte in hash.digest(blob) {
        for step in 0..4 {
            let bits = byte >> (2 * step);
            x = if bits & 1 == 0 { x.saturating_sub(1) } else { (x + 1).min(WIDTH - 1) };
            y = if bits & 2 == 0 { y.saturating_sub(1) } else { (y + 1).min(HEIGHT - 1) };
            visits[y][x] = (visits[y][x] + 1).min(MARKS.len() - 1);
        }
    }
    let end = (x, y);

    let border = |label: &str| {
        let label = if label.len() > WIDTH { "" } else { label };
        let left = (WIDTH - label.len()) / 2;
        format!("+{}{label}{}+", "-".repeat(left), "-".repeat(WIDTH - label.len() - left))
    };
    let mut picture = border(title);
    for (row, line) in visits.iter().enumerate() {
        picture.push_str("\n|");
        picture.extend(line.iter().enumerate().map(|(column, count)| match (column, row) {
            at if at == end => 'E',
            at if at == start => 'S',
            _ => char::from(MARKS[*count]),
        }));
        picture.push('|');
    }
    picture.push('\n');
    picture.push_str(&border(&format!("[{}]", hash.name())));
    picture
}
