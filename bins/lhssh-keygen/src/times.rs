//! Dates on the command line and in files: absolute, relative, and their output.

use lh_config::units::parse_time;
use lh_sys::time::{date, now_unix, utc_offset};

use crate::console::{Outcome, fatal};

/// Validity period: start and end, seconds since 1970.
pub(crate) type Validity = (u64, u64);

/// Current time, seconds since 1970.
pub(crate) fn now() -> u64 {
    u64::try_from(now_unix()).unwrap_or(0)
}

/// Parses `YYYYMMDD`, `YYYYMMDDHHMM` or `YYYYMMDDHHMMSS` in local time, or in UTC with suffix `Z` or `UTC`.
pub(crate) fn parse_absolute(text: &str) -> Option<u64> {
    lh_sys::time::parse(text).and_then(|time| u64::try_from(time).ok())
}

/// Parses `-V`: `+1w`, or two times separated by a colon, each absolute, relative, a hexadecimal number, or
/// `always` and `forever`.
pub(crate) fn parse_validity(text: &str) -> Outcome<Validity> {
    let now = now();
    let shown = lh_client::sanitise(text);
    if let Some(interval) = text.strip_prefix('+').filter(|interval| !interval.contains(':')) {
        let interval = parse_time(interval)
            .ok_or_else(|| fatal(format!("Invalid relative certificate life {shown}")))?;
        // Starts at the minute before, for hosts whose clocks are slightly behind.
        return Ok((now.saturating_sub(59) / 60 * 60, now + interval));
    }
    let (from, to) = text
        .split_once(':')
        .filter(|(from, to)| !from.is_empty() && !to.is_empty())
        .ok_or_else(|| fatal(format!("Invalid certificate life specification {shown}")))?;
    let from = match from {
        "always" => 0,
        from => parse_end(from, now, "from")?,
    };
    let to = match to {
        "forever" => u64::MAX,
        to => parse_end(to, now, "to")?,
    };
    if to <= from {
        return Err(fatal("Empty certificate validity interval"));
    }
    Ok((from, to))
}

/// Parses one end of an interval.
fn parse_end(text: &str, now: u64, which: &str) -> Outcome<u64> {
    let shown = lh_client::sanitise(text);
    if let Some(rest) = text.strip_prefix(['-', '+']) {
        let seconds =
            parse_time(rest).ok_or_else(|| fatal(format!("Invalid relative certificate time {shown}")))?;
        if text.starts_with('+') {
            return Ok(now + seconds);
        }
        return now
            .checked_sub(seconds)
            .ok_or_else(|| fatal(format!("Certificate time {shown} cannot be represented")));
    }
    if let Some(digits) = text.strip_prefix("0x") {
        return u64::from_str_radix(digits, 16)
            .ok()
            .filter(|_| !digits.starts_with('+'))
            .ok_or_else(|| fatal("Invalid certificate time: not a number"));
    }
    parse_absolute(text).ok_or_else(|| fatal(format!("Invalid {which} time \"{shown}\"")))
}

/// `forever`, `before …`, `after …` or `from … to …`, in local time.
pub(crate) fn show_validity((after, before): Validity) -> String {
    match (after, before) {
        (0, u64::MAX) => "forever".to_owned(),
        (0, before) => format!("before {}", show(before)),
        (after, u64::MAX) => format!("after {}", show(after)),
        (after, before) => format!("from {} to {}", show(after), show(before)),
    }
}

/// `2030-01-31T12:00:00` in local time.
pub(crate) fn show(time: u64) -> String {
    let [year, month, day, hour, minute, second] = local(time);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")
}

/// `20300131T120000` in local time.
pub(crate) fn show_compact(time: u64) -> String {
    let [year, month, day, hour, minute, second] = local(time);
    format!("{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}")
}

/// Year, month, day, hour, minute and second in local time, limited to the year 9999.
fn local(time: u64) -> [i64; 6] {
    const LAST: i64 = 253_402_300_799 - 86_400;
    let time = i64::try_from(time).unwrap_or(LAST).min(LAST);
    let local = time + i64::from(utc_offset(time));
    let (days, seconds) = (local.div_euclid(86_400), local.rem_euclid(86_400));
    let (year, month, day) = date(days);
    [year, month, day, seconds / 3600, seconds / 60 % 60, seconds % 60]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn absolute_times_have_three_lengths() {
        assert_eq!(parse_absolute("19700102Z"), Some(86_400));
        assert_eq!(parse_absolute("197001020001Z"), Some(86_460));
        assert_eq!(parse_absolute("19700102000102UTC"), Some(86_462));
        for text in ["", "Z", "1970", "1970010200", "1970010x", "19701301", "197001021", "+1970102"] {
            assert_eq!(parse_absolute(text), None, "{text}");
        }
    }

    #[test]
    fn intervals_are_parsed_in_every_form() {
        assert_eq!(parse_validity("0x10:0x20").expect("valid"), (16, 32));
        assert_eq!(parse_validity("always:forever").expect("valid"), (0, u64::MAX));
        let (from, to) = parse_validity("-1d:+1w2d").expect("valid");
        assert_eq!(to - from, 10 * 86_400);
        let (from, to) = parse_validity("+1h").expect("valid");
        assert!(from % 60 == 0 && (3659..=3720).contains(&(to - from)), "{from} {to}");
    }

    proptest! {
        #[test]
        fn arbitrary_text_does_not_panic(text in "([-+:xzZ]|always|forever|0x|[0-9]{1,14}|[smhdw]|\\PC){0,8}") {
            let _ = parse_validity(&text);
        }
    }
}
