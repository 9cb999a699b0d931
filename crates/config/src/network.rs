//! Values of the keywords for a connection's socket and windows: HPN-SSH's and Longhaul's.

use crate::line::Arguments;
use crate::table::Value;
use crate::units::parse_size;
use crate::value_error::{Bound, Syntax, ValueError, ValueFault};

/// A buffer size in KiB, as HPN-SSH writes it (`TcpRcvBuf 4096`, `HPNBufferSize 16384`), or with a unit
/// (`16M`). `None` for `none` and while unset; then it is not dumped either.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BufferSize(pub Option<u64>);

impl BufferSize {
    /// Returns the size in bytes, limited to 32 bits like windows and socket buffers.
    pub fn bytes(&self) -> Option<u32> {
        self.0.map(|bytes| u32::try_from(bytes).unwrap_or(u32::MAX))
    }
}

impl Value for BufferSize {
    const KIND: &'static str = "size in KiB, or with K, M or G";
    fn parse(args: &mut Arguments) -> Result<Self, ValueError> {
        let word = args.required()?;
        if word.eq_ignore_ascii_case("none") {
            return Ok(Self(None));
        }
        let kibibytes = word.bytes().all(|byte| byte.is_ascii_digit());
        // HPN-SSH's documentation also writes 4096KB.
        let text = word.strip_suffix(['b', 'B']).filter(|text| text.ends_with(['k', 'K'])).unwrap_or(&word);
        let size =
            parse_size(text).and_then(|size| if kibibytes { size.checked_mul(1024) } else { Some(size) });
        match size {
            Some(size) if size > 0 => Ok(Self(Some(size))),
            _ => Err(args.malformed(Syntax::Quantity, &word)),
        }
    }
    fn dump(&self, name: &str, out: &mut Vec<String>) {
        match self.0 {
            None => {}
            // All units are multiples of 1024 bytes.
            Some(size) => out.push(format!("{name} {}K", size / 1024)),
        }
    }
}

/// A rate in bits/s, with `K`, `M`, `G` or `T` (powers of 1000, as usual for networks): `800M`, `10G`. `None`
/// for `none` and while unset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BitRate(pub Option<u64>);

/// Lowest rate of a keyword, bits/s. Below it, one packet takes longer than either end waits for an answer,
/// and logins fail without a word about the reason.
const LEAST_RATE: u64 = 8000;

/// Units, largest first.
const RATE_UNITS: [(char, u64); 4] =
    [('T', 1_000_000_000_000), ('G', 1_000_000_000), ('M', 1_000_000), ('K', 1000)];

impl BitRate {
    /// Returns the rate in bytes/s, at least 1.
    pub fn bytes_per_second(&self) -> Option<u64> {
        self.0.map(|bits| (bits / 8).max(1))
    }

    /// Parses bits/s; `None` for an invalid rate.
    pub fn read(text: &str) -> Option<u64> {
        let last = text.chars().next_back()?.to_ascii_uppercase();
        let unit = RATE_UNITS.iter().find(|(unit, _)| *unit == last);
        let (digits, factor) = unit.map_or((text, 1), |(_, factor)| (&text[..text.len() - 1], *factor));
        if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        digits.parse::<u64>().ok()?.checked_mul(factor).filter(|rate| *rate > 0)
    }
}

impl Value for BitRate {
    const KIND: &'static str = "bits per second, with K, M, G or T, or none";
    fn parse(args: &mut Arguments) -> Result<Self, ValueError> {
        let word = args.required()?;
        if word.eq_ignore_ascii_case("none") {
            return Ok(Self(None));
        }
        let rate = Self::read(&word).ok_or_else(|| args.malformed(Syntax::Quantity, &word))?;
        if rate < LEAST_RATE {
            return Err(args.refused(ValueFault::OutOfRange(Bound::RateTooSmall)));
        }
        Ok(Self(Some(rate)))
    }
    fn dump(&self, name: &str, out: &mut Vec<String>) {
        let Some(rate) = self.0 else { return };
        let unit = RATE_UNITS.iter().find(|(_, factor)| rate % factor == 0);
        out.push(match unit {
            Some((unit, factor)) => format!("{name} {}{unit}", rate / factor),
            None => format!("{name} {rate}"),
        });
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::line::Dialect;

    fn parse<T: Value>(text: &str) -> Result<T, ValueError> {
        T::parse(&mut Arguments::from_words("Keyword", Dialect::Client, &[text]))
    }

    fn dumped<T: Value>(value: &T) -> Vec<String> {
        let mut out = Vec::new();
        value.dump("k", &mut out);
        out
    }

    #[test]
    fn sizes_without_a_unit_are_in_kib() {
        for (text, bytes) in
            [("4096", 4 << 20), ("4096KB", 4 << 20), ("4096k", 4 << 20), ("16M", 16 << 20), ("1G", 1 << 30)]
        {
            let size: BufferSize = parse(text).unwrap();
            assert_eq!(size.bytes(), Some(bytes), "{text}");
            assert_eq!(parse::<BufferSize>(&dumped(&size)[0][2..]), Ok(size));
        }
        assert_eq!(parse("none"), Ok(BufferSize(None)));
        assert!(dumped(&BufferSize(None)).is_empty());
        assert_eq!(parse::<BufferSize>("8G").unwrap().bytes(), Some(u32::MAX));
        for wrong in ["0", "-1", "1.5M", "4096B", "x", "99999999999999999999"] {
            let error = parse::<BufferSize>(wrong).unwrap_err();
            assert_eq!(error.to_string(), format!("Bad Keyword value: {wrong}"));
        }
    }

    #[test]
    fn rates_are_in_bits_with_powers_of_1000() {
        for (text, bytes) in
            [("8K", 1000), ("800M", 100_000_000), ("10g", 1_250_000_000), ("1T", 125_000_000_000)]
        {
            let rate: BitRate = parse(text).unwrap();
            assert_eq!(rate.bytes_per_second(), Some(bytes), "{text}");
            assert_eq!(parse::<BitRate>(&dumped(&rate)[0][2..]), Ok(rate));
        }
        assert_eq!(parse("none"), Ok(BitRate(None)));
        for wrong in ["0", "0K", "K", "1.5G", "1e9", "99999999T", "ä"] {
            assert!(parse::<BitRate>(wrong).is_err(), "{wrong}");
        }
        assert_eq!(BitRate(BitRate::read("1")).bytes_per_second(), Some(1));
    }

    #[test]
    fn rates_that_no_login_survives_are_errors() {
        for low in ["1", "7999", "7K"] {
            let error = parse::<BitRate>(low).unwrap_err();
            assert_eq!(error.to_string(), "Keyword too small: at least 8K (bits a second)");
        }
        assert_eq!(parse("8000"), Ok(BitRate(Some(8000))));
    }

    proptest! {
        #[test]
        fn anything(text in "\\PC{0,20}") {
            let _ = parse::<BufferSize>(&text);
            let _ = parse::<BitRate>(&text);
        }
    }
}
