//! Sizes in words, as the page and its verdicts show them.

/// A size such as `12.3 MB`, in powers of 1000, as for networks.
pub(crate) fn size(bytes: f64) -> String {
    let mut value = bytes;
    for unit in ["B", "kB", "MB", "GB", "TB"] {
        if value < 1000.0 {
            return if unit == "B" { format!("{value:.0} {unit}") } else { format!("{value:.1} {unit}") };
        }
        value /= 1000.0;
    }
    format!("{value:.1} PB")
}

#[cfg(test)]
mod tests {
    use super::size;

    #[test]
    fn sizes_use_powers_of_1000() {
        assert_eq!(size(999.0), "999 B");
        assert_eq!(size(12_345_678.0), "12.3 MB");
    }
}
