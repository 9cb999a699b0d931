//! The `ls -l` line of directory entries. It has the same columns as sftp-server's, because scripts parse
//! them.

use std::collections::HashMap;
use std::io::Write;

use super::Lookup;
use crate::fs::DirEntry;
use crate::mode;

/// Names of user and group ids that were looked up. `None` for ids without a name.
#[derive(Default)]
pub(super) struct NameCache {
    users: HashMap<u32, Option<String>>,
    groups: HashMap<u32, Option<String>>,
}

/// Largest number of cached ids: more than the directories of a host show. A full cache is emptied, to bound
/// its memory.
const MAX_CACHED: usize = 16 * 1024;

impl NameCache {
    pub(super) fn user(&mut self, uid: u32, lookup: &mut dyn Lookup) -> Option<&str> {
        cached(&mut self.users, uid, |uid| lookup.user_name(uid))
    }

    pub(super) fn group(&mut self, gid: u32, lookup: &mut dyn Lookup) -> Option<&str> {
        cached(&mut self.groups, gid, |gid| lookup.group_name(gid))
    }
}

fn cached(
    cache: &mut HashMap<u32, Option<String>>,
    id: u32,
    ask: impl FnOnce(u32) -> Option<String>,
) -> Option<&str> {
    if cache.len() >= MAX_CACHED {
        cache.clear();
    }
    cache.entry(id).or_insert_with(|| ask(id)).as_deref()
}

/// Writes a name, or the number of an id without a name, in a column of at least eight characters.
fn write_owner(out: &mut Vec<u8>, name: Option<&str>, id: u32) {
    let _ = match name {
        Some(name) => write!(out, "{name:<8} "),
        None => write!(out, "{id:<8} "),
    };
}

/// Appends the line to `out`. `now` is in seconds since 1970.
pub(super) fn write(
    out: &mut Vec<u8>,
    entry: &DirEntry,
    now: i64,
    cache: &mut NameCache,
    lookup: &mut dyn Lookup,
) {
    let attrs = &entry.attrs;
    let (uid, gid) = attrs.ids.unwrap_or((0, 0));
    let time = i64::from(attrs.times.unwrap_or((0, 0)).1);
    let permissions = permissions(attrs.permissions.unwrap_or(0));
    let links = entry.links;
    // Writing to a Vec cannot fail.
    let _ = write!(out, "{permissions}  {links:>3} ");
    write_owner(out, cache.user(uid, lookup), uid);
    write_owner(out, cache.group(gid, lookup), gid);
    let _ = write!(out, "{:>8} ", attrs.size.unwrap_or(0));
    write_time(out, time, now, lookup.utc_offset(time));
    out.push(b' ');
    out.extend_from_slice(&entry.name);
}

/// Returns the permissions in the form `drwxr-xr-x`, as strmode(3) does.
pub fn permissions(bits: u32) -> String {
    let kind = match bits & mode::TYPE {
        mode::DIRECTORY => 'd',
        mode::CHARACTER => 'c',
        mode::BLOCK => 'b',
        mode::REGULAR => '-',
        mode::SYMLINK => 'l',
        mode::SOCKET => 's',
        mode::FIFO => 'p',
        _ => '?',
    };
    let mut text = String::with_capacity(10);
    text.push(kind);
    for (shift, special, lower, upper) in
        [(6, 0o4000, 's', 'S'), (3, 0o2000, 's', 'S'), (0, 0o1000, 't', 'T')]
    {
        let three = bits >> shift;
        text.push(if three & 4 != 0 { 'r' } else { '-' });
        text.push(if three & 2 != 0 { 'w' } else { '-' });
        text.push(match (bits & special != 0, three & 1 != 0) {
            (false, false) => '-',
            (false, true) => 'x',
            (true, false) => upper,
            (true, true) => lower,
        });
    }
    text
}

/// Writes a time as `Jan  2 15:04`, or as `Jan  2  2006` if it is more than half a year ago or in the future.
pub fn write_time(out: &mut Vec<u8>, time: i64, now: i64, utc_offset: i32) {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let local = time.saturating_add(utc_offset.into());
    let (year, month, day) = date(local.div_euclid(86_400));
    let second = local.rem_euclid(86_400);
    let month = MONTHS.get(month).copied().unwrap_or("???");
    let half_year = 365 * 86_400 / 2;
    let _ = if now >= time && now - time < half_year {
        write!(out, "{month} {day:>2} {:02}:{:02}", second / 3600, second / 60 % 60)
    } else {
        write!(out, "{month} {day:>2}  {year}")
    };
}

/// Returns year, month (0 is January) and day of the month for a number of days since 1970-01-01, in the
/// Gregorian calendar.
///
/// Counts years from March, so that the leap day is the last day of one, in eras of 400 years.
pub(super) fn date(day: i64) -> (i64, usize, i64) {
    let day = day + 719_468;
    let era = day.div_euclid(146_097);
    let day_of_era = day.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day_of_month = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 2 } else { march_month - 10 };
    let year = year_of_era + era * 400 + i64::from(month < 2);
    (year, usize::try_from(month).unwrap_or(0), day_of_month)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Attrs;

    struct Names;
    impl Lookup for Names {
        fn user_name(&mut self, uid: u32) -> Option<String> {
            (uid == 0).then(|| "root".into())
        }
        fn group_name(&mut self, gid: u32) -> Option<String> {
            (gid == 0).then(|| "averylonggroup".into())
        }
        fn home(&mut self, _: &[u8]) -> Option<Vec<u8>> {
            None
        }
        fn clock(&mut self) -> std::time::Duration {
            std::time::Duration::ZERO
        }
        fn now(&mut self) -> i64 {
            0
        }
    }

    fn line(permissions: u32, ids: (u32, u32), size: u64, time: u32, now: i64) -> String {
        let attrs = Attrs {
            size: Some(size),
            ids: Some(ids),
            permissions: Some(permissions),
            times: Some((0, time)),
            ..Attrs::NONE
        };
        let entry = DirEntry { name: b"name".to_vec(), attrs, links: 2 };
        let mut out = Vec::new();
        write(&mut out, &entry, now, &mut NameCache::default(), &mut Names);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn lines_look_like_those_of_sftp_server() {
        let leap_day = 951_782_400 + 3600 + 120; // 2000-02-29 01:02 UTC
        assert_eq!(
            line(0o040_755, (0, 1000), 4096, leap_day, i64::from(leap_day) + 60),
            "drwxr-xr-x    2 root     1000         4096 Feb 29 01:02 name"
        );
        assert_eq!(
            line(0o104_644, (12345, 0), 1 << 40, leap_day, i64::from(leap_day) - 60),
            "-rwSr--r--    2 12345    averylonggroup 1099511627776 Feb 29  2000 name"
        );
        assert!(line(0o121_777, (0, 0), 1, 0, 1 << 40).starts_with("lrwxrwxrwt "));
    }

    #[test]
    fn every_day_of_four_centuries_follows_the_one_before() {
        assert_eq!(date(0), (1970, 0, 1));
        assert_eq!(date(-1), (1969, 11, 31));
        let (mut year, mut month, mut day) = date(0);
        for number in 1..=146_097 {
            let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
            let length = [31, if leap { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
            day += 1;
            if day > length[month] {
                (day, month) = (1, month + 1);
            }
            if month == 12 {
                (month, year) = (0, year + 1);
            }
            assert_eq!(date(number), (year, month, day));
        }
    }
}
