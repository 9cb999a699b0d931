//! Civil time, for the few places where people write dates into files.
#![expect(unsafe_code, reason = "the rules of the local time zone are the C library's")]

/// A date and a time of day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Civil {
    /// Year, such as 2030.
    pub year: i32,
    /// Month, 1 to 12.
    pub month: i32,
    /// Day, 1 to 31.
    pub day: i32,
    /// Hour, 0 to 23.
    pub hour: i32,
    /// Minute, 0 to 59.
    pub minute: i32,
    /// Second, 0 to 60.
    pub second: i32,
}

/// Seconds since 1970, from local time or UTC; `None` for a date that does not exist.
pub fn to_unix(civil: Civil, utc: bool) -> Option<i64> {
    // SAFETY: all-zero bytes are a valid `tm`: integers and a null pointer.
    let mut tm: libc::tm = unsafe { std::mem::zeroed() };
    tm.tm_year = civil.year.checked_sub(1900)?;
    tm.tm_mon = civil.month.checked_sub(1)?;
    tm.tm_mday = civil.day;
    tm.tm_hour = civil.hour;
    tm.tm_min = civil.minute;
    tm.tm_sec = civil.second;
    tm.tm_isdst = -1;
    let wanted = (tm.tm_year, tm.tm_mon, tm.tm_mday);
    // SAFETY: `tm` is initialised and ours.
    let time = unsafe { if utc { libc::timegm(&mut tm) } else { libc::mktime(&mut tm) } };
    // The calls turn the 31st of February into March: such a date was a mistake.
    let same_day = (tm.tm_year, tm.tm_mon, tm.tm_mday) == wanted;
    (time >= 0 && same_day && (0..24).contains(&civil.hour) && (0..60).contains(&civil.minute))
        .then_some(time)
}

/// Seconds east of UTC that local time is at `time`; 0 when nobody knows.
pub fn utc_offset(time: i64) -> i32 {
    // SAFETY: all-zero bytes are a valid `tm`: integers and a null pointer.
    let mut tm: libc::tm = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are valid for the call.
    if unsafe { libc::localtime_r(&time, &mut tm) }.is_null() {
        return 0;
    }
    i32::try_from(tm.tm_gmtoff).unwrap_or(0)
}

/// Seconds since 1970, now.
pub fn now_unix() -> i64 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| i64::try_from(since.as_secs()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_that_exist() {
        let date = |year, month, day| Civil { year, month, day, hour: 12, minute: 0, second: 0 };
        assert_eq!(to_unix(date(1970, 1, 1), true), Some(43_200));
        assert_eq!(to_unix(date(2024, 2, 29), true), Some(1_709_208_000));
        assert_eq!(to_unix(date(2023, 2, 29), true), None);
        assert_eq!(to_unix(date(2023, 13, 1), true), None);
        let local = to_unix(date(2024, 6, 1), false).unwrap();
        assert!((local - to_unix(date(2024, 6, 1), true).unwrap()).abs() <= 14 * 3600);
        assert_eq!(utc_offset(local + i64::from(utc_offset(local))) % 60, 0);
        assert_eq!(i64::from(utc_offset(local)), to_unix(date(2024, 6, 1), true).unwrap() - local);
        assert!(now_unix() > 1_700_000_000);
    }
}
