//! Calendar time, for dates in files and options.
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

/// Time of the monotonic clock, which all processes of the system share and a reboot sets back. For values
/// that leave the process; inside it, `Instant` is the same clock.
pub fn monotonic() -> std::time::Duration {
    rustix::time::clock_gettime(rustix::time::ClockId::Monotonic).try_into().unwrap_or_default()
}

/// CPU time that this process has used so far, user and system together, without its children.
pub fn process_cpu() -> std::time::Duration {
    let clock = rustix::time::ClockId::ProcessCPUTime;
    rustix::time::clock_gettime(clock).try_into().unwrap_or_default()
}

/// Returns the CPU time of all ended children of this process, user and system together, including their own
/// ended children. The resolution is microseconds; that of `/proc/self/stat` is 10 ms.
pub fn children_cpu() -> std::time::Duration {
    // SAFETY: all-zero bytes are a valid `rusage`, which is integers only.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a `rusage` that lives during the call; the kernel fills it.
    let result = unsafe { libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage) };
    if result != 0 {
        return std::time::Duration::ZERO;
    }
    let micros = |time: libc::timeval| {
        let (seconds, micros) = (u64::try_from(time.tv_sec), u64::try_from(time.tv_usec));
        seconds.unwrap_or(0).saturating_mul(1_000_000).saturating_add(micros.unwrap_or(0))
    };
    std::time::Duration::from_micros(micros(usage.ru_utime).saturating_add(micros(usage.ru_stime)))
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
    // The calls turn 31 February into March, so a changed day means that the date does not exist.
    let same_day = (tm.tm_year, tm.tm_mon, tm.tm_mday) == wanted;
    (time >= 0 && same_day && (0..24).contains(&civil.hour) && (0..60).contains(&civil.minute))
        .then_some(time)
}

/// Parses `YYYYMMDD`, `YYYYMMDDHHMM` or `YYYYMMDDHHMMSS` in local time, or in UTC with suffix `Z` or `UTC`.
/// Returns seconds since 1970.
pub fn parse(text: &str) -> Option<i64> {
    let (digits, utc) = match text.strip_suffix("UTC").or_else(|| text.strip_suffix(['Z', 'z'])) {
        Some(digits) => (digits, true),
        None => (text, false),
    };
    if ![8, 12, 14].contains(&digits.len()) || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let field = |from: usize, to: usize| digits.get(from..to).unwrap_or("0").parse::<i32>().ok();
    let civil = Civil {
        year: field(0, 4)?,
        month: field(4, 6)?,
        day: field(6, 8)?,
        hour: field(8, 10)?,
        minute: field(10, 12)?,
        second: field(12, 14)?,
    };
    to_unix(civil, utc)
}

/// Year, month (1 to 12) and day of a day number counted from 1970-01-01, for any year and independent of
/// time zones. The computation counts years from March, so that the leap day is the last one.
pub const fn date(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let (month, year) =
        if shifted < 10 { (shifted + 3, year_of_era) } else { (shifted - 9, year_of_era + 1) };
    (era * 400 + year, month, day_of_year - (153 * shifted + 2) / 5 + 1)
}

/// Offset of local time from UTC at `time`, in seconds east; 0 when unknown.
pub fn utc_offset(time: i64) -> i32 {
    // SAFETY: all-zero bytes are a valid `tm`: integers and a null pointer.
    let mut tm: libc::tm = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are valid for the call.
    if unsafe { libc::localtime_r(&time, &mut tm) }.is_null() {
        return 0;
    }
    i32::try_from(tm.tm_gmtoff).unwrap_or(0)
}

/// `2030-01-02T03:04:05`, local time.
pub fn local_text(time: i64) -> String {
    let Civil { year, month, day, hour, minute, second } = local(time).0;
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")
}

/// `Wed Jan  2 03:04:05 2030`, local time, as ctime(3) writes it.
pub fn ctime_text(time: i64) -> String {
    const DAYS: [&str; 7] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let (Civil { year, month, day, hour, minute, second }, weekday) = local(time);
    let name = |names: &[&'static str], index: i32| {
        usize::try_from(index).ok().and_then(|index| names.get(index)).copied().unwrap_or("???")
    };
    let (weekday, month) = (name(&DAYS, weekday), name(&MONTHS, month - 1));
    format!("{weekday} {month} {day:2} {hour:02}:{minute:02}:{second:02} {year}")
}

/// Local time and the day of the week (0: Sunday).
fn local(time: i64) -> (Civil, i32) {
    // SAFETY: all-zero bytes are a valid `tm`: integers and a null pointer.
    let mut tm: libc::tm = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are valid for the call. On failure `tm` stays unchanged.
    unsafe { libc::localtime_r(&time, &mut tm) };
    let civil = Civil {
        year: tm.tm_year.saturating_add(1900),
        month: tm.tm_mon + 1,
        day: tm.tm_mday,
        hour: tm.tm_hour,
        minute: tm.tm_min,
        second: tm.tm_sec,
    };
    (civil, tm.tm_wday)
}

/// `2030-01-02T03:04:05.678Z`: RFC 3339, in UTC, with milliseconds. A time before 1970 is shown as 1970.
pub fn utc_text(time: std::time::SystemTime) -> String {
    let since = time.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let seconds = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
    // SAFETY: all-zero bytes are a valid `tm`: integers and a null pointer.
    let mut tm: libc::tm = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are valid for the call. On failure `tm` stays unchanged.
    unsafe { libc::gmtime_r(&raw const seconds, &raw mut tm) };
    format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z",
        tm.tm_year.saturating_add(1900),
        tm.tm_mon + 1,
        tm.tm_mday,
        tm.tm_hour,
        tm.tm_min,
        tm.tm_sec,
        since.subsec_millis()
    )
}

/// Current time, seconds since 1970.
pub fn now_unix() -> i64 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| i64::try_from(since.as_secs()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_formatted() {
        let civil = Civil { year: 2024, month: 2, day: 9, hour: 3, minute: 4, second: 5 };
        let time = to_unix(civil, false).unwrap();
        assert_eq!(local_text(time), "2024-02-09T03:04:05");
        assert_eq!(ctime_text(time), "Fri Feb  9 03:04:05 2024");
        let time = std::time::UNIX_EPOCH + std::time::Duration::from_millis(1_709_208_000_042);
        assert_eq!(utc_text(time), "2024-02-29T12:00:00.042Z");
    }

    #[test]
    fn day_numbers_convert_to_dates() {
        assert_eq!(date(0), (1970, 1, 1));
        assert_eq!(date(11_016), (2000, 2, 29));
        assert_eq!(date(11_017), (2000, 3, 1));
        assert_eq!(date(19_782), (2024, 2, 29));
        assert_eq!(date(20_088), (2024, 12, 31));
        assert_eq!(date(21_914), (2029, 12, 31));
        assert_eq!(date(-1), (1969, 12, 31));
    }

    #[test]
    fn only_existing_dates_are_parsed() {
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
