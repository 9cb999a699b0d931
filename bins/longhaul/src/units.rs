//! Sizes and times in words.

use std::time::Duration;

/// A size such as `12.3 MB`, in powers of 1000, as for networks.
pub(crate) fn size(bytes: f64) -> String {
    let mut value = bytes;
    for unit in ["B", "kB", "MB", "GB", "TB"] {
        // What is rounded to 1000.0 has the next unit.
        if value < 999.95 {
            return if unit == "B" { format!("{value:.0} {unit}") } else { format!("{value:.1} {unit}") };
        }
        value /= 1000.0;
    }
    format!("{value:.1} PB")
}

/// A value of a plot in its unit (`rate`, `bytes`, `ms`, `count` or `percent`).
pub(crate) fn in_unit(unit: &str, value: f64) -> String {
    match unit {
        "rate" => format!("{}/s", size(value)),
        "bytes" => size(value),
        "ms" if value > 0.0 && value < 0.1 => format!("{:.0} µs", value * 1000.0),
        "ms" if value >= 10_000.0 => format!("{:.1} s", value / 1000.0),
        "ms" => format!("{value:.2} ms"),
        "percent" => format!("{value:.0} %"),
        _ => format!("{value:.0}"),
    }
}

/// A time in its two largest units.
pub(crate) fn in_words(time: Duration) -> String {
    let seconds = time.as_secs();
    let units = [(86_400, 'd'), (3600, 'h'), (60, 'm'), (1, 's')];
    let first = units.iter().position(|(unit, _)| seconds >= *unit).unwrap_or(3);
    let mut left = seconds;
    let mut words = String::new();
    for (unit, letter) in units.iter().skip(first).take(2) {
        if words.is_empty() || left / unit > 0 {
            words.push_str(&format!("{}{letter}", left / unit));
        }
        left %= unit;
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_use_powers_of_1000() {
        assert_eq!(size(999.0), "999 B");
        assert_eq!([12_345_678.0, 999_960.0].map(size), ["12.3 MB", "1.0 MB"]);
    }

    #[test]
    fn values_carry_their_unit() {
        let shown = ["rate", "bytes", "ms", "percent", "count"].map(|unit| in_unit(unit, 1234.5));
        assert_eq!(shown, ["1.2 kB/s", "1.2 kB", "1234.50 ms", "1234 %", "1234"]);
    }

    #[test]
    fn round_trips_within_a_machine_are_not_nothing() {
        assert_eq!([0.0, 0.004, 0.1].map(|ms| in_unit("ms", ms)), ["0.00 ms", "4 µs", "0.10 ms"]);
        assert_eq!(in_unit("ms", 4e6), "4000.0 s");
    }

    #[test]
    fn ages_have_two_units() {
        let words = [0, 59, 60, 3_599, 3_600, 90_000, 172_800].map(|n| in_words(Duration::from_secs(n)));
        assert_eq!(words, ["0s", "59s", "1m", "59m59s", "1h", "1d1h", "2d"]);
    }
}
