//! Times and sizes in the notation of configuration files.

use std::time::Duration;

/// Parses a time: seconds, or a sum of numbers with `s m h d w` (any case), such as `1h30m`.
///
/// Returns seconds, or `None` for invalid text or a total over `i32::MAX` (OpenSSH's limit).
pub fn parse_time(text: &str) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    let mut total: u64 = 0;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let number: u64 = rest[..digits].parse().ok()?;
        let mut unit = rest[digits..].chars();
        let factor = match unit.next() {
            None | Some('s' | 'S') => 1,
            Some('m' | 'M') => 60,
            Some('h' | 'H') => 3600,
            Some('d' | 'D') => 86_400,
            Some('w' | 'W') => 604_800,
            Some(_) => return None,
        };
        rest = unit.as_str();
        total = total.checked_add(number.checked_mul(factor)?)?;
    }
    (total <= i32::MAX as u64).then_some(total)
}

/// Parses seconds with an optional decimal fraction (`0.5`), or the units of [`parse_time`].
pub fn parse_fractional_time(text: &str) -> Option<Duration> {
    if let Some((whole, fraction)) = text.split_once('.') {
        let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
        let fraction = fraction.trim_end_matches(['s', 'S']);
        if fraction.is_empty() || fraction.len() > 9 || !fraction.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        let nanos: u32 = format!("{fraction:0<9}").parse().ok()?;
        return (whole <= i32::MAX as u64).then(|| Duration::new(whole, nanos));
    }
    parse_time(text).map(Duration::from_secs)
}

/// Parses a size in bytes with an optional `K`, `M` or `G` (powers of 1024, either case).
pub fn parse_size(text: &str) -> Option<u64> {
    let (digits, shift) = match text.as_bytes().last()? {
        b'k' | b'K' => (&text[..text.len() - 1], 10),
        b'm' | b'M' => (&text[..text.len() - 1], 20),
        b'g' | b'G' => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    digits.parse::<u64>().ok()?.checked_mul(1 << shift).filter(|size| *size <= i64::MAX as u64)
}
