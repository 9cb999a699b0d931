//! Medians, spreads and units.

/// The median; `None` of nothing.
pub(crate) fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    let upper = *values.get(middle)?;
    if values.len() % 2 == 1 { Some(upper) } else { Some((values.get(middle - 1)? + upper) / 2.0) }
}

/// The lowest value; `None` of nothing.
pub(crate) fn lowest(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    values.into_iter().filter(|value| value.is_finite()).min_by(f64::total_cmp)
}

/// Bytes such as `12.3 MB`, in powers of 1000.
pub(crate) fn size(bytes: f64) -> String {
    let mut value = bytes;
    for unit in ["B", "kB", "MB", "GB"] {
        if value.abs() < 999.5 {
            return if unit == "B" || value >= 100.0 {
                format!("{value:.0} {unit}")
            } else {
                format!("{value:.1} {unit}")
            };
        }
        value /= 1000.0;
    }
    format!("{value:.1} TB")
}

/// A rate such as `12.3 MB/s`.
pub(crate) fn rate(bytes: f64) -> String {
    format!("{}/s", size(bytes))
}

/// A rate limit as `TcpPacing` and `lhscp --pace` take it: bits per second, without a fraction.
pub(crate) fn pacing(bytes_per_second: f64) -> String {
    let kilobits = (bytes_per_second * 8.0 / 1000.0).max(100.0);
    if kilobits >= 1e5 { format!("{:.0}M", kilobits / 1000.0) } else { format!("{kilobits:.0}K") }
}

/// A time such as `12 ms` or `2.3 s`.
pub(crate) fn time(seconds: f64) -> String {
    let millis = seconds * 1000.0;
    if millis < 0.0995 {
        format!("{:.0} µs", millis * 1000.0)
    } else if millis < 9.95 {
        format!("{millis:.1} ms")
    } else if millis < 999.5 {
        format!("{millis:.0} ms")
    } else {
        format!("{seconds:.1} s")
    }
}

/// A share such as `42 %`.
pub(crate) fn percent(share: f64) -> String {
    if share > 0.0 && share < 0.0995 {
        format!("{:.2} %", share * 100.0)
    } else {
        format!("{:.0} %", share * 100.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_of_an_even_count_is_between_the_middle_values() {
        assert_eq!(median([3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median([4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median([]), None);
    }

    #[test]
    fn rate_limits_are_what_the_programs_take() {
        assert_eq!([0.0, 12_500.0, 2.15e6, 300e6].map(pacing), ["100K", "100K", "17200K", "2400M"]);
        for text in [pacing(2.15e6), pacing(300e6)] {
            assert!(lh_config::network::BitRate::read(&text).is_some(), "{text}");
        }
    }

    #[test]
    fn numbers_have_units() {
        assert_eq!(
            (size(999.0), size(2_097_152.0), size(123e6)),
            ("999 B".into(), "2.1 MB".into(), "123 MB".into())
        );
        assert_eq!(
            (time(0.0042), time(0.042), time(2.34)),
            ("4.2 ms".into(), "42 ms".into(), "2.3 s".into())
        );
        assert_eq!((percent(0.0123), percent(0.5)), ("1.23 %".into(), "50 %".into()));
    }
}
