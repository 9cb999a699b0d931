//! Parsing of times, rates and sizes with the units of tc(8).

use std::time::Duration;

/// Splits `12.5ms` into its number and its unit, the unit in lower case.
fn split(text: &str) -> Option<(f64, String)> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let number: f64 = number.parse().ok()?;
    Some((number, unit.trim().to_ascii_lowercase()))
}

/// Parses a time: `50ms`, `250us`, `1.5s`; a bare number is milliseconds.
pub fn time(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text}: a time is written like 50ms, 250us or 1.5s");
    let (number, unit) = split(text).ok_or_else(wrong)?;
    let seconds = match unit.as_str() {
        "us" => number / 1e6,
        "" | "ms" => number / 1e3,
        "s" => number,
        _ => return Err(wrong()),
    };
    Duration::try_from_secs_f64(seconds).map_err(|_| wrong())
}

/// Parses a rate in bits per second: `2gbit`, `100mbit`, `1.5Gbit`; a bare number is bits per second.
pub fn rate(text: &str) -> Result<u64, String> {
    let wrong = || format!("{text}: a rate is written like 2gbit, 100mbit or 64kbit");
    let (number, unit) = split(text).ok_or_else(wrong)?;
    let factor = match unit.trim_end_matches("/s") {
        "" | "bit" => 1.0,
        "k" | "kbit" => 1e3,
        "m" | "mbit" => 1e6,
        "g" | "gbit" => 1e9,
        _ => return Err(wrong()),
    };
    let bits = number * factor;
    // Below a kilobit one packet takes seconds; above a terabit the arithmetic is no longer valid.
    if (1e3..=1e12).contains(&bits) { Ok(bits as u64) } else { Err(wrong()) }
}

/// Parses a size in bytes: `4096`, `256k`, `4MiB` (powers of 1024), `4MB` (powers of 1000).
pub fn size(text: &str) -> Result<u64, String> {
    let wrong = || format!("{text}: a size is written like 65536, 256k, 4MiB or 12.5MB");
    let (number, unit) = split(text).ok_or_else(wrong)?;
    let factor: u64 = match unit.as_str() {
        "" | "b" => 1,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        _ => return Err(wrong()),
    };
    Ok((number * factor as f64) as u64)
}

/// Parses a probability: `0`, `0.0001` or `0.01%`.
pub fn loss(text: &str) -> Result<f64, String> {
    let wrong = || format!("{text}: a loss is written like 0.0001 or 0.01%, and is less than 100%");
    let (number, unit) = split(text).ok_or_else(wrong)?;
    let part = match unit.as_str() {
        "" => number,
        "%" => number / 100.0,
        _ => return Err(wrong()),
    };
    if (0.0..1.0).contains(&part) { Ok(part) } else { Err(wrong()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_notations_are_parsed() {
        assert_eq!(time("50ms"), Ok(Duration::from_millis(50)));
        assert_eq!(time("50"), Ok(Duration::from_millis(50)));
        assert_eq!(time("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(time("250us"), Ok(Duration::from_micros(250)));
        assert_eq!(rate("2gbit"), Ok(2_000_000_000));
        assert_eq!(rate("2.5Gbit"), Ok(2_500_000_000));
        assert_eq!(rate("100M"), Ok(100_000_000));
        assert_eq!(size("256k"), Ok(262_144));
        assert_eq!(size("12.5MB"), Ok(12_500_000));
        assert_eq!(loss("0"), Ok(0.0));
        assert_eq!(loss("1%"), Ok(0.01));
    }

    #[test]
    fn errors_name_the_invalid_text() {
        for text in ["", "fast", "50 parsec", "-1ms", "..", "1e3"] {
            assert!(time(text).unwrap_err().starts_with(text), "{text}");
            assert!(rate(text).is_err(), "{text}");
            assert!(size(text).is_err(), "{text}");
            assert!(loss(text).is_err(), "{text}");
        }
        assert!(rate("0").is_err(), "a rate of 0 must be refused");
        assert!(loss("100%").is_err(), "a loss of 100% must be refused");
    }
}
