//! Numbers and names in the progress line.

use std::time::Duration;

const UNITS: [char; 7] = [' ', 'k', 'M', 'G', 'T', 'P', 'E'];

/// Powers of 1000, as for networks and in the reports of `longhaul`.
const STEP: u64 = 1000;

/// Returns a byte count in at most four digits and a unit, six columns wide: `  12 B`, `1023kB`, ` 100MB`.
///
/// Uses powers of 1000, and the next unit only when five digits would be needed, like `scp`.
pub fn size(bytes: u64) -> String {
    let (value, unit) = scaled(bytes, 10_000);
    format!("{value:>4}{}B", UNITS[unit])
}

/// Returns a rate with one decimal, nine columns wide: ` 95.3MB/s`, `999.9kB/s`.
pub fn rate(bytes_per_second: f64) -> String {
    let mut value = if bytes_per_second.is_finite() { bytes_per_second.max(0.0) / STEP as f64 } else { 0.0 };
    let mut unit = 1;
    while value >= 999.95 && unit < UNITS.len() - 1 {
        value /= STEP as f64;
        unit += 1;
    }
    format!("{value:>5.1}{}B/s", UNITS[unit])
}

/// Returns a duration as `MM:SS`, or `H:MM:SS` from an hour on.
pub fn duration(time: Duration) -> String {
    let seconds = time.as_secs();
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    if hours > 0 {
        format!("{hours}:{minutes:02}:{seconds:02}")
    } else {
        format!("{minutes:02}:{seconds:02}")
    }
}

/// Returns the width of `text` on a terminal, columns: East Asian wide characters count two, combining marks
/// none.
pub fn display_width(text: &str) -> usize {
    text.chars().map(character_width).sum()
}

/// Returns `text` truncated or padded on the right to exactly `columns`.
pub(crate) fn fitted(text: &str, columns: usize) -> String {
    let mut out = String::with_capacity(columns);
    let mut used = 0;
    for character in text.chars() {
        let width = character_width(character);
        if used + width > columns {
            break;
        }
        used += width;
        out.push(character);
    }
    out.extend(std::iter::repeat_n(' ', columns - used));
    out
}

fn scaled(bytes: u64, limit: u64) -> (u64, usize) {
    let (mut value, mut unit) = (bytes, 0);
    while value >= limit && unit < UNITS.len() - 1 {
        value = value / STEP + u64::from(value % STEP >= STEP / 2);
        unit += 1;
    }
    (value, unit)
}

const fn character_width(character: char) -> usize {
    match character as u32 {
        0x0300..=0x036f | 0x1ab0..=0x1aff | 0x1dc0..=0x1dff | 0x20d0..=0x20ff | 0xfe00..=0xfe0f => 0,
        0x1100..=0x115f
        | 0x2e80..=0x303e
        | 0x3041..=0xa4cf
        | 0xac00..=0xd7a3
        | 0xf900..=0xfaff
        | 0xfe30..=0xfe6f
        | 0xff00..=0xff60
        | 0xffe0..=0xffe6
        | 0x1f300..=0x1f64f
        | 0x1f900..=0x1f9ff
        | 0x20000..=0x3fffd => 2,
        _ => 1,
    }
}

/// Returns a progress bar of `columns` columns, brackets included.
pub(crate) fn bar(percent: u64, columns: usize) -> String {
    let inside = columns.saturating_sub(2);
    let done = (inside as u64 * percent.min(100) / 100) as usize;
    let (full, head) = if done < inside { (done, ">") } else { (inside, "") };
    format!("[{}{head}{}]", "=".repeat(full), " ".repeat(inside - full - head.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_take_six_columns_and_change_unit_late() {
        for (bytes, shown) in [
            (0, "   0 B"),
            (1023, "1023 B"),
            (9999, "9999 B"),
            (10_240, "  10kB"),
            (1_048_576, "1049kB"),
            (1_000_000_000, "1000MB"),
            (100_000_000, " 100MB"),
            (u64::MAX, "  18EB"),
        ] {
            assert_eq!(size(bytes), shown);
            assert_eq!(size(bytes).len(), 6);
        }
    }

    #[test]
    fn rates_take_nine_columns() {
        assert_eq!(rate(0.0), "  0.0kB/s");
        assert_eq!(rate(1000.0 * 95.3), " 95.3kB/s");
        assert_eq!(rate(1000.0 * 999.97), "  1.0MB/s");
        assert_eq!(rate(1.5e9), "  1.5GB/s");
        for odd in [f64::NAN, f64::INFINITY, -1.0] {
            assert_eq!(rate(odd), "  0.0kB/s");
        }
    }

    #[test]
    fn durations_show_hours_only_when_needed() {
        assert_eq!(duration(Duration::from_secs(5)), "00:05");
        assert_eq!(duration(Duration::from_secs(3599)), "59:59");
        assert_eq!(duration(Duration::from_secs(3_600 * 26 + 61)), "26:01:01");
    }

    #[test]
    fn wide_characters_are_cut_and_padded_by_columns() {
        assert_eq!(fitted("漢字かな", 5), "漢字 ");
        assert_eq!(fitted("ab", 4), "ab  ");
        assert_eq!(display_width("e\u{301}漢"), 3);
    }
}
