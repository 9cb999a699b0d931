//! Output of `ls` and `df`.

use lh_cli::progress::{display_width, printable};
use lh_sftp::server::long_name;
use lh_sftp::{Attrs, StatVfs};

use crate::command::{DiskUse, ListFlags, Order};

/// One line, or one cell, of a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// Name to show, not escaped yet.
    pub name: Vec<u8>,
    /// The server's line for `ls -l`, if it sent one.
    pub long_name: Option<Vec<u8>>,
    /// Attributes, as far as known.
    pub attrs: Attrs,
}

/// Names for ids, where they were asked for.
#[derive(Debug, Clone, Default)]
pub struct Owners {
    /// Users.
    pub users: std::collections::HashMap<u32, String>,
    /// Groups.
    pub groups: std::collections::HashMap<u32, String>,
}

/// Sorts as the flags say.
pub fn sort(items: &mut [Item], flags: &ListFlags) {
    let size = |item: &Item| item.attrs.size.unwrap_or(0);
    let time = |item: &Item| item.attrs.times.map_or(0, |(_, modification)| modification);
    match flags.order {
        Order::None => {}
        Order::Name => items.sort_by(|a, b| a.name.cmp(&b.name)),
        Order::Size => items.sort_by(|a, b| size(b).cmp(&size(a)).then_with(|| a.name.cmp(&b.name))),
        Order::Time => items.sort_by(|a, b| time(b).cmp(&time(a)).then_with(|| a.name.cmp(&b.name))),
    }
    if flags.reverse {
        items.reverse();
    }
}

/// Escapes a name, or a server's line with a name, for a listing. Tabs stay, as in sftp's listings, so that
/// programs read the name itself. Line ends do not: a name must not look like several.
pub fn shown_name(name: &[u8]) -> String {
    name.split(|byte| *byte == b'\t').map(printable).collect::<Vec<_>>().join("\t")
}

/// The lines of a listing for a terminal of `width` columns.
pub fn lines(items: &[Item], flags: &ListFlags, owners: &Owners, now: i64, width: usize) -> Vec<String> {
    if flags.long {
        let own = flags.numeric || flags.human;
        let line = |item: &Item| match &item.long_name {
            Some(line) if !own => shown_name(line),
            _ => long_line(item, flags, owners, now),
        };
        return items.iter().map(line).collect();
    }
    let names: Vec<String> = items.iter().map(|item| shown_name(&item.name)).collect();
    if flags.single { names } else { columns(&names, width) }
}

/// `ls -l`, with a `?` for the number of links, which the protocol does not have.
fn long_line(item: &Item, flags: &ListFlags, owners: &Owners, now: i64) -> String {
    let attrs = &item.attrs;
    let permissions = long_name::permissions(attrs.permissions.unwrap_or(0));
    let (uid, gid) = attrs.ids.unwrap_or((0, 0));
    let name = |id: u32, names: &std::collections::HashMap<u32, String>| {
        let name = names.get(&id).filter(|name| !flags.numeric && !name.is_empty());
        name.map_or_else(|| id.to_string(), |name| printable(name.as_bytes()))
    };
    let (user, group) = (name(uid, &owners.users), name(gid, &owners.groups));
    let size = attrs.size.unwrap_or(0);
    let size = if flags.human { scaled(size) } else { size.to_string() };
    let time = i64::from(attrs.times.map_or(0, |(_, modification)| modification));
    let mut when = Vec::new();
    long_name::write_time(&mut when, time, now, lh_sys::time::utc_offset(time));
    let when = String::from_utf8_lossy(&when);
    format!("{permissions}    ? {user:<8} {group:<8} {size:>8} {when} {}", shown_name(&item.name))
}

/// Names side by side, in rows, as many as fit.
fn columns(names: &[String], width: usize) -> Vec<String> {
    let longest = names.iter().map(|name| display_width(name)).max().unwrap_or(0);
    let count = (width / (longest + 2)).max(1);
    let room = width / count;
    names
        .chunks(count)
        .map(|row| {
            let mut line = String::new();
            for name in row {
                line.push_str(name);
                line.extend(std::iter::repeat_n(' ', room.saturating_sub(display_width(name))));
            }
            line
        })
        .collect()
}

/// A number of bytes in at most three digits and a unit: `512B`, `4.0K`, `35.6G`, `252G`.
pub fn scaled(bytes: u64) -> String {
    const UNITS: [char; 7] = ['B', 'K', 'M', 'G', 'T', 'P', 'E'];
    if bytes < 1024 {
        return format!("{bytes}B");
    }
    let mut unit = 0;
    let mut value = bytes as f64;
    while value >= 1023.5 && unit < UNITS.len() - 1 {
        value /= 1024.0;
        unit += 1;
    }
    let unit = UNITS[unit];
    // 99.95 would be shown with four digits.
    if value >= 99.95 { format!("{value:.0}{unit}") } else { format!("{value:.1}{unit}") }
}

/// Returns the output of `df`.
pub fn disk(stat: &StatVfs, shown: DiskUse) -> Vec<String> {
    let percent = |used: u64, all: u64| match all {
        0 => "ERR".to_owned(),
        all => format!("{:>3}%", u128::from(used) * 100 / u128::from(all)),
    };
    let used = stat.blocks.saturating_sub(stat.blocks_free);
    let capacity = percent(used, stat.blocks);
    if shown == DiskUse::Inodes {
        let used = stat.files.saturating_sub(stat.files_free);
        return vec![
            "     Inodes        Used       Avail      (root)    %Capacity".to_owned(),
            format!(
                "{:>11} {used:>11} {:>11} {:>11}         {}",
                stat.files,
                stat.files_available,
                stat.files_free,
                percent(used, stat.files)
            ),
        ];
    }
    let bytes = |blocks: u64| blocks.saturating_mul(stat.fragment_size);
    let amounts = [stat.blocks, used, stat.blocks_available, stat.blocks_free].map(bytes);
    if shown == DiskUse::Scaled {
        let [size, used, available, root] = amounts.map(|bytes| match scaled(bytes) {
            plain if plain.ends_with('B') => plain,
            scaled => format!("{scaled}B"),
        });
        return vec![
            "    Size     Used    Avail   (root)    %Capacity".to_owned(),
            format!("{size:>8} {used:>8} {available:>8} {root:>8}         {capacity}"),
        ];
    }
    let [size, used, available, root] = amounts.map(|bytes| bytes / 1024);
    vec![
        "        Size         Used        Avail       (root)    %Capacity".to_owned(),
        format!("{size:>12} {used:>12} {available:>12} {root:>12}         {capacity}"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(name: &str) -> Item {
        let attrs = Attrs {
            size: Some(6),
            ids: Some((0, 12345)),
            permissions: Some(0o100_644),
            times: Some((0, 0)),
            ..Attrs::NONE
        };
        Item { name: name.into(), long_name: None, attrs }
    }

    #[test]
    fn columns_are_openssh_s() {
        let items: Vec<Item> = ["d", "dang", "f 2", "f1", "fifo", "ldir", "lnk", "longest"].map(item).into();
        let lines = lines(&items, &ListFlags::default(), &Owners::default(), 0, 80);
        assert_eq!(lines.len(), 1);
        assert_eq!(lines[0].len(), 80);
        assert!(lines[0].starts_with("d         dang      f 2       f1        "), "{:?}", lines[0]);
        let wide: Vec<String> = vec!["x".repeat(100), "y".to_owned()];
        assert_eq!(columns(&wide, 80).len(), 2);
        assert_eq!(columns(&wide, 0).len(), 2);
    }

    #[test]
    fn tabs_stay_and_line_ends_are_escaped() {
        let single = ListFlags { single: true, ..ListFlags::default() };
        let shown = lines(&[item("a\tb\nc\x1b[2J")], &single, &Owners::default(), 0, 80);
        assert_eq!(shown, ["a\tb\\012c\\033[2J"]);
        let long = Item { long_name: Some(b"-rw a\tb\nc".to_vec()), ..item("") };
        let flags = ListFlags { long: true, ..ListFlags::default() };
        assert_eq!(lines(&[long], &flags, &Owners::default(), 0, 80), ["-rw a\tb\\012c"]);
    }

    #[test]
    fn long_lines_have_openssh_s_columns() {
        let flags = ListFlags { long: true, ..ListFlags::default() };
        let mut owners = Owners::default();
        owners.users.insert(0, "root".to_owned());
        let line = long_line(&item("a\x1b[2J"), &flags, &owners, 100);
        // The local time depends on the time zone.
        assert!(line.starts_with("-rw-r--r--    ? root     12345           6 "), "{line}");
        assert!(line.ends_with(" a\\033[2J"), "{line}");
        let flags = ListFlags { long: true, numeric: true, human: true, ..ListFlags::default() };
        assert!(long_line(&item("a"), &flags, &owners, 100).contains("? 0        12345          6B "));
    }

    #[test]
    fn sizes_are_scaled() {
        for (bytes, text) in [
            (0, "0B"),
            (1023, "1023B"),
            (4096, "4.0K"),
            (1 << 20, "1.0M"),
            (102_400 - 1, "100K"),
            (252 << 30, "252G"),
            (u64::MAX, "16.0E"),
        ] {
            assert_eq!(scaled(bytes), text);
        }
    }

    #[test]
    fn sorting_follows_the_flags() {
        let mut items: Vec<Item> = ["b", "a", "c"].map(item).into();
        items[1].attrs.size = Some(100);
        items[2].attrs.times = Some((0, 9));
        let names = |items: &[Item]| items.iter().map(|item| item.name[0] as char).collect::<String>();
        for (order, reverse, expected) in [
            (Order::None, false, "bac"),
            (Order::Name, false, "abc"),
            (Order::Name, true, "cba"),
            (Order::Size, false, "abc"),
            (Order::Time, false, "cab"),
        ] {
            let mut items = items.clone();
            sort(&mut items, &ListFlags { order, reverse, ..ListFlags::default() });
            assert_eq!(names(&items), expected, "{order:?}");
        }
    }
}
