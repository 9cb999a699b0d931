//! Times and sizes in the notation of configuration files.

use std::time::Duration;

/// Parses a time: seconds, or a sum of numbers with `s m h d w` (any case), such as `1h30m`. A plus sign may
/// precede each number.
///
/// Returns seconds, or `None` for invalid text or a total over `i32::MAX` (OpenSSH's limit).
pub fn parse_time(text: &str) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    let mut total: u64 = 0;
    let mut rest = text;
    while !rest.is_empty() {
        // As in C's strtol.
        rest = rest.strip_prefix('+').unwrap_or(rest);
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

/// Parses a time in the units of [`parse_time`], where seconds may have a decimal fraction (`0.5`, `1m2.5s`).
/// Digits beyond nanoseconds are cut off.
pub fn parse_fractional_time(text: &str) -> Option<Duration> {
    // OpenSSH has no fractional numbers, so its leading plus need not be accepted.
    if text.contains('+') {
        return None;
    }
    let Some((before, rest)) = text.split_once('.') else {
        return parse_time(text).map(Duration::from_secs);
    };
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let (fraction, rest) = rest.split_at(digits);
    let mut nanos = fraction.get(..9).unwrap_or(fraction).to_owned();
    if nanos.is_empty() {
        return None;
    }
    nanos.extend(std::iter::repeat_n('0', 9_usize.saturating_sub(nanos.len())));
    // Only seconds have a fraction: the last number, with or without its letter.
    let rest = match rest.strip_prefix(['s', 'S']) {
        None if rest.is_empty() => rest,
        rest => rest?,
    };
    // A missing integer part means 0.
    let start = before.rfind(|c: char| !c.is_ascii_digit()).map_or(0, |at| at + 1);
    let zero = if start == before.len() { "0" } else { "" };
    let before = parse_time(&format!("{before}{zero}"))?;
    let after = if rest.is_empty() { Duration::ZERO } else { parse_fractional_time(rest)? };
    let total = Duration::new(before, nanos.parse().ok()?).checked_add(after)?;
    (total.as_secs() <= i32::MAX as u64).then_some(total)
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
