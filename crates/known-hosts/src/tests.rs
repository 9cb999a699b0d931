use super::*;
use crate::names::hmac_sha1;
use proptest::prelude::*;

struct Counter(u8);

impl Random for Counter {
    fn fill(&mut self, out: &mut [u8]) {
        for byte in out {
            self.0 = self.0.wrapping_add(1);
            *byte = self.0;
        }
    }
}

fn key(seed: u8) -> PublicKey {
    let mut blob = Vec::new();
    lh_wire::Writer::put_string(&mut blob, b"ssh-ed25519");
    lh_wire::Writer::put_string(&mut blob, &[seed; 32]);
    PublicKey::from_blob(&blob).expect("a public key")
}

fn other_type() -> PublicKey {
    let mut blob = Vec::new();
    lh_wire::Writer::put_string(&mut blob, b"ssh-future");
    lh_wire::Writer::put_string(&mut blob, &[1; 8]);
    PublicKey::from_blob(&blob).expect("a public key")
}

fn line(key: &PublicKey) -> String {
    key.to_openssh_line("").trim_end().to_owned()
}

#[test]
fn hosts_are_found_by_name_port_pattern_and_case() {
    let a = key(1);
    let file = format!(
        "# comment\n\nhost.example,192.0.2.1 {k} note\n[host.example]:2222 {k}\n*.lab,!bad.lab {k}\n",
        k = line(&a)
    );
    let known = KnownHosts::parse(file.as_bytes());
    let is_match = |host: &str, port| matches!(known.lookup(host, port, &a), Lookup::Match(_));
    assert!(is_match("host.example", 22) && is_match("HOST.example", 22) && is_match("192.0.2.1", 22));
    assert!(is_match("host.example", 2222) && is_match("x.lab", 22));
    assert!(matches!(known.lookup("host.example", 23, &a), Lookup::Unknown));
    assert!(matches!(known.lookup("bad.lab", 22, &a), Lookup::Unknown));
    assert!(matches!(known.lookup("x.lab", 22, &key(2)), Lookup::Changed(entry) if entry.line == 5));
}

/// The entries and the possible revocations of `h` in a text, of which only lines about `h` are kept or all.
fn about_h(text: &str, only: bool) -> (Vec<(usize, Marker)>, Vec<usize>, usize) {
    let mut known = KnownHosts::default();
    if only {
        for (number, raw) in (1..).zip(text.split_inclusive('\n')) {
            known.add_line_about("h", number, raw.as_bytes());
        }
    } else {
        known = KnownHosts::parse(text.as_bytes());
    }
    let entries = known.about("h").map(|entry| (entry.line, entry.marker)).collect();
    let may_revoke = |line: &BrokenLine| line.marker == Marker::Revoked && line.may_match("h");
    let broken = known.broken_lines().filter(may_revoke).map(|line| line.line).collect();
    (entries, broken, known.lines.len())
}

#[test]
fn lines_about_a_name_tell_as_much_as_all() {
    let k = line(&key(1));
    let (start, end) = k.split_at(k.len() / 2);
    let hashed = [hash_name("h", &mut Counter(0)), hash_name("other", &mut Counter(9))];
    for (text, kept) in [
        (format!("h {k}\nother {k}\n# h {k}\n\nother,h {k}\r\n*,!h {k}\n  h\t{k}\n"), 3),
        (format!("{} {k}\n{} {k}\n|1|x|y {k}\n", hashed[0], hashed[1]), 1),
        (format!("@revoked h {k}\n@revoked other {k}\n@cert-authority * {k}\n@no h {k}\n"), 3),
        (format!("@Revoked other {k}\n@Revoked *,!h {k}\n@Revoked *,!other {k}\n@revoked\u{a0}x {k}\n"), 2),
        (format!("@revoked \u{a0}other {k}\n\u{feff}@Revoked h {k}\n\u{feff}@cert-authority h {k}\n"), 2),
        (
            format!("# x\r@Revoked other {k}\nother {k}@REVOKED other {k}\n@ h {k}\n@cert-authority x {k}\n"),
            3,
        ),
        (format!("@revoked h {start}\n{end}\n@revoked other {start}\n"), 1),
        (format!("other {k}@revoked h {k}\nother {k}\r@revoked other {k}\n# x\r@revoked other {k}\n"), 3),
        (format!("@revoked |1|x|y {k}\n@revoked\n"), 2),
    ] {
        let (entries, broken, count) = about_h(&text, true);
        let (all_entries, all_broken, _) = about_h(&text, false);
        assert_eq!((entries, broken, count), (all_entries, all_broken, kept), "{text}");
    }
}

#[test]
fn key_of_another_type_is_a_change_unless_one_matches() {
    let known = KnownHosts::parse(format!("h {}\nh {}\n", line(&other_type()), line(&key(1))).as_bytes());
    assert!(matches!(known.lookup("h", 22, &key(1)), Lookup::Match(entry) if entry.line == 2));
    assert!(matches!(known.lookup("h", 22, &other_type()), Lookup::Match(entry) if entry.line == 1));
    assert!(matches!(known.lookup("h", 22, &key(2)), Lookup::Changed(_)));
    assert_eq!(known.key_types("h"), ["ssh-future", "ssh-ed25519"]);
}

#[test]
fn revocation_wins_and_authorities_are_not_host_keys() {
    let (good, bad, ca) = (key(1), key(2), key(3));
    let file = format!(
        "h {}\nh {}\n@revoked * {}\n@cert-authority *.x,h {}\n@cert-authority h {}\n@future h {}\n",
        line(&good),
        line(&bad),
        line(&bad),
        line(&ca),
        line(&bad),
        line(&good)
    );
    let known = KnownHosts::parse(file.as_bytes());
    assert!(matches!(known.lookup("h", 22, &bad), Lookup::Revoked(entry) if entry.line == 3));
    assert!(matches!(known.lookup("h", 22, &good), Lookup::Match(_)));
    assert!(matches!(known.lookup("a.x", 22, &ca), Lookup::Unknown));
    assert_eq!(known.authorities("h").iter().map(|e| e.line).collect::<Vec<_>>(), [4]);
    assert_eq!(known.entries().count(), 5);
}

#[test]
fn broken_lines_are_found_with_what_they_are_for() {
    let a = line(&key(1));
    let (start, end) = a.split_at(a.len() - 9);
    let find = |text: &str| {
        let known = KnownHosts::parse(text.as_bytes());
        let describe = |broken: BrokenLine| {
            (broken.line, broken.marker, ["h", "other"].map(|name| broken.may_match(name)))
        };
        known.broken_lines().map(describe).collect::<Vec<_>>()
    };
    use Marker::{CertAuthority, Plain, Revoked};
    let whole = format!("# note\n\n \t\r\nh {a} note\r\n@revoked *,!x {a}\n@cert-authority * {a}\n");
    assert_eq!(find(&whole), []);
    for (text, found) in [
        // Lines that an editor wrapped, inside the key and at each word.
        (format!("@revoked h {start}\n{end}\n"), vec![(1, Revoked, [true, false]), (2, Plain, [false; 2])]),
        (format!("@revoked h\n{a}\n"), vec![(1, Revoked, [true, false]), (2, Plain, [false; 2])]),
        (format!("@revoked\nh {a}\n"), vec![(1, Revoked, [true; 2])]),
        // Joined lines, and line ends of another system.
        (format!("@revoked h {a} u@h@revoked other {a}"), vec![(1, Revoked, [true; 2])]),
        (format!("x {a} u@h@revoked other {a}"), vec![(1, Revoked, [true; 2])]),
        // Without a comment the marker is part of the first key.
        (format!("x {a}@revoked other {a}"), vec![(1, Revoked, [true; 2])]),
        (format!("@revoked x {a}@revoked other {a}"), vec![(1, Revoked, [true; 2])]),
        (format!("x {a} u@hother {a}"), vec![(1, Plain, [true; 2])]),
        (format!("# list\r@revoked h {a}\r"), vec![(1, Revoked, [true; 2])]),
        (format!("@revoked x {a}\r@revoked h {a}\r"), vec![(1, Revoked, [true; 2])]),
        ("h ssh-ed25519\n".to_owned(), vec![(1, Plain, [true, false])]),
        (format!("@cert-authority h {start}\n"), vec![(1, CertAuthority, [true, false])]),
        (format!("@revoked |1|x|y {a}\n"), vec![(1, Revoked, [true; 2])]),
    ] {
        assert_eq!(find(&text), found, "{text:?}");
    }
}

#[test]
fn unknown_markers_may_revoke_for_their_hosts() {
    let a = line(&key(1));
    let find = |text: &str| {
        let known = KnownHosts::parse(format!("# first\n{text}\n").as_bytes());
        let lines: Vec<_> = known.broken_lines().filter(|line| line.marker == Marker::Revoked).collect();
        assert!(lines.iter().all(|line| line.line == 2), "{text:?}: {lines:?}");
        ["h", "other"].map(|name| lines.iter().any(|line| line.may_match(name)))
    };
    for (text, found) in [
        (format!("@Revoked * {a}"), [true; 2]),
        (format!("@Revoked h,x {a}"), [true, false]),
        (format!("@revoke *,!other\t{a}"), [true, false]),
        ("@future h ssh-ed25519 cut".to_owned(), [true, false]),
        (format!("@REVOKED {} {a}", hash_name("h", &mut Counter(0))), [true, false]),
        ("@revoked: h 1024 35 12345".to_owned(), [true, false]),
        ("@Revoked h".to_owned(), [true, false]),
        (format!("\u{feff}@Revoked h {a}"), [true, false]),
        (format!("\u{feff}@revoked h {a}"), [true, false]),
        // It is not certain where the hosts field is.
        (format!("@revoked\u{a0}other {a}"), [true; 2]),
        (format!("@revoked,other {a}"), [true; 2]),
        ("@revoked,other ssh-ed25519".to_owned(), [true; 2]),
        (format!("@ revoked other {a}"), [true; 2]),
        ("@future h x".to_owned(), [true; 2]),
        ("@Revoked".to_owned(), [true; 2]),
        (format!("@Revoked other {a} u@h@REVOKED h {a}"), [true; 2]),
        (format!("# x\r@revoke other {a}\r"), [true; 2]),
        // Nor where it ends, or which characters are in it.
        (format!("@revoked other, h {a}"), [true; 2]),
        (format!("@revoked \u{a0}other {a}"), [true; 2]),
        (format!("@revoked other\u{200b} {a}"), [true; 2]),
        (format!("# @Revoked * {a}"), [false; 2]),
        (format!("\u{feff}@cert-authority * {a}"), [false; 2]),
        (format!("h {a} u@revoker"), [false; 2]),
    ] {
        assert_eq!(find(&text), found, "{text:?}");
    }
    let latin = [b"@revoked\xa0* ", a.as_bytes()].concat();
    assert!(KnownHosts::parse(&latin).broken_lines().any(|line| line.may_match("h")));
    let utf16: Vec<u8> =
        format!("\u{feff}@revoked * {a}\n").encode_utf16().flat_map(u16::to_le_bytes).collect();
    let known = KnownHosts::parse(&utf16);
    assert!(known.broken_lines().any(|line| line.marker == Marker::Revoked && line.may_match("h")));
}

#[test]
fn only_the_hashed_names_match() {
    // The published construction; lines of ssh-keygen -H for host.example and [host.example]:2222 would serve
    // as well.
    let mut random = Counter(0);
    let lines = entry_lines(&["host.example", "192.0.2.1"], &key(1), Some(&mut random));
    assert_eq!(lines.lines().count(), 2);
    assert!(lines.starts_with("|1|AQIDBAUGBwgJCgsMDQ4PEBESExQ=|"), "{lines}");
    let known = KnownHosts::parse(lines.as_bytes());
    assert!(matches!(known.lookup("Host.Example", 22, &key(1)), Lookup::Match(_)));
    assert!(matches!(known.lookup("192.0.2.1", 22, &key(1)), Lookup::Match(_)));
    assert!(matches!(known.lookup("host.example", 2222, &key(1)), Lookup::Unknown));
    // Malformed hashes are not used as patterns.
    let known = KnownHosts::parse(format!("|1|*|* {}\n", line(&key(1))).as_bytes());
    assert_eq!(known.entries().count(), 0);
}

#[test]
fn hmac_matches_rfc_2202() {
    let mac = hmac_sha1(&[0x0b; 20], b"Hi There");
    assert_eq!(mac[..4], [0xb6, 0x17, 0x31, 0x86]);
    assert_eq!(mac[16..], [0xf1, 0x46, 0xbe, 0x00]);
}

#[test]
fn hashing_a_file_keeps_other_lines() {
    let k = line(&key(1));
    let file = format!("# note\na,b {k} me\n*.lab {k}\n@revoked c {k}\nbroken\n");
    let known = KnownHosts::parse(file.as_bytes());
    let (bytes, patterns, changed) = known.hashed(&mut Counter(0));
    assert!(changed);
    assert_eq!(patterns, [(3, "*.lab".to_owned())]);
    let text = String::from_utf8(bytes.clone()).expect("text");
    assert!(!text.contains("a,b") && text.contains("# note\n") && text.contains("\nbroken\n"));
    let again = KnownHosts::parse(&bytes);
    assert!(matches!(again.lookup("a", 22, &key(1)), Lookup::Match(entry) if entry.comment == "me"));
    assert!(matches!(again.lookup("b", 22, &key(1)), Lookup::Match(_)));
    let (_, _, changed) = again.hashed(&mut Counter(0));
    assert!(!changed);
}

#[test]
fn removing_a_host_keeps_every_other_byte() {
    let k = line(&key(1));
    let mut file = format!("# a\nhost {k}\n@cert-authority host {k}\nother {k}\n").into_bytes();
    file.extend_from_slice(b"\xff\xfe bytes\nlast");
    let known = KnownHosts::parse(&file);
    let (kept, removed) = known.without("host");
    assert_eq!(removed.iter().map(|entry| entry.line).collect::<Vec<_>>(), [2]);
    let mut expected = format!("# a\n@cert-authority host {k}\nother {k}\n").into_bytes();
    expected.extend_from_slice(b"\xff\xfe bytes\nlast");
    assert_eq!(kept, expected);
}

#[test]
fn append_creates_file_and_ends_last_line() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("ssh/known_hosts");
    append(&path, &["a"], &key(1), None).expect_err("no directory");
    fs::create_dir(directory.path().join("ssh")).expect("a directory");
    append(&path, &["a"], &key(1), None).expect("first");
    fs::write(&path, fs::read_to_string(&path).expect("text").trim_end()).expect("cut");
    append(&path, &["b"], &key(2), None).expect("second");
    let known = KnownHosts::read(&path).expect("reads");
    assert!(matches!(known.lookup("a", 22, &key(1)), Lookup::Match(_)));
    assert!(matches!(known.lookup("b", 22, &key(2)), Lookup::Match(_)));
    let old = replace(&path, b"# new\n").expect("replaces");
    assert_eq!(fs::read(&path).expect("new"), b"# new\n");
    assert_eq!(KnownHosts::read(&old).expect("old").entries().count(), 2);
    replace(&path, b"# newer\n").expect("replaces the old one too");
}

proptest! {
    #[test]
    fn any_bytes_parse_and_are_kept(bytes in proptest::collection::vec(any::<u8>(), 0..600), name in ".{0,20}") {
        let known = KnownHosts::parse(&bytes);
        let _ = known.lookup_name(&name, &key(1));
        let (kept, removed) = known.without("no-such-host");
        if removed.is_empty() {
            prop_assert_eq!(kept, bytes);
        }
    }

    #[test]
    fn text_like_lines_never_panic(text in "(@revoked |@cert-authority |\\|1\\||[a-z*?!,|\\[\\]: ]|ssh-ed25519 |AAAA){0,40}") {
        let known = KnownHosts::parse(text.as_bytes());
        let _ = known.hashed(&mut Counter(0));
        let _ = known.lookup_name("host", &key(1));
    }
}
