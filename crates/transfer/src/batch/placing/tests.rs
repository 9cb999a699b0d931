use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use bytes::Bytes;

use crate::Placing;
use crate::end::Info;

use super::*;

const INFO: Info = Info { kind: Kind::File, size: Some(3), mode: Some(0o604), ..Info::UNKNOWN };

/// What a placer works with.
struct Host {
    options: Options,
    facts: TargetFacts,
    report: Reporter,
}

impl Host {
    fn new(options: Options) -> Self {
        let (facts, report) = (TargetFacts::default(), Reporter::new(&options));
        Self { options, facts, report }
    }

    fn placer(&mut self) -> Placer<'_> {
        Placer { options: &self.options, facts: &mut self.facts, report: &mut self.report }
    }
}

fn small(path: &Path, size: u64) -> Small {
    let target = path.to_string_lossy().into_owned().into_bytes();
    Small { id: 0, item: Item::top(b"from/f".to_vec(), target, INFO), size, sum: None }
}

fn got(data: &'static [u8]) -> Got {
    Got { info: INFO, whole: true, data: Bytes::from_static(data), xattrs: None }
}

#[test]
fn replaced_file_is_whole_and_keeps_its_mode() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("f");
    fs::write(&path, "old").expect("a file");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).expect("a mode");
    let mut host = Host::new(Options {
        placing: Placing { atomic: true, ..Placing::default() },
        verify: Verify::Always,
        ..Options::default()
    });
    let item = small(&path, 3).item;
    assert!(matches!(host.placer().place_small(&item, &got(b"new")), Some(Ok(()))));
    assert_eq!(fs::read(&path).ok().as_deref(), Some(&b"new"[..]));
    let mode = fs::metadata(&path).map(|there| there.permissions().mode() & 0o777);
    assert_eq!(mode.ok(), Some(0o640));
    assert_eq!(fs::read_dir(dir.path()).map(Iterator::count).ok(), Some(1), "no part file is left");
}

#[test]
fn a_longer_file_that_is_written_in_place_is_cut() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("f");
    fs::write(&path, "longer than that").expect("a file");
    let mut host = Host::new(Options::default());
    let end = host.placer().place(small(&path, 3), &got(b"new"), None);
    assert!(matches!(end, SmallEnd::Done(_)), "{end:?}");
    assert_eq!(fs::read(&path).ok().as_deref(), Some(&b"new"[..]));
    let end = host.placer().place(small(&dir.path().join("none/f"), 3), &got(b"new"), None);
    assert!(matches!(end, SmallEnd::Failed(_, FailedStep::OpenTarget, _)), "{end:?}");
}

#[test]
fn only_what_came_whole_is_placed() {
    let path = Path::new("to");
    let mut host = Host::new(Options::default());
    let (whole, _) =
        host.placer().on_read_answer(small(path, 5), Ok(got(b"new"))).expect("it is whole, and shorter");
    assert_eq!(whole.size, 3);
    let part = Got { whole: false, ..got(b"ne") };
    let end = host.placer().on_read_answer(small(path, 3), Ok(part)).expect_err("longer by now");
    assert!(matches!(*end, SmallEnd::Alone(_)), "{end:?}");
    let end = host.placer().on_read_answer(small(path, 3), Ok(got(b"ne"))).expect_err("it has shrunk");
    assert!(matches!(*end, SmallEnd::Failed(_, FailedStep::ReadSource, _)), "{end:?}");
    let end = host.placer().on_read_answer(small(path, 3), Err(Fault::other("no"))).expect_err("refused");
    assert!(matches!(*end, SmallEnd::Failed(_, FailedStep::OpenSource, _)), "{end:?}");
    host.options.keep.xattrs = true;
    let end = host
        .placer()
        .on_read_answer(small(path, 3), Ok(got(b"new")))
        .expect_err("its attributes did not fit");
    assert!(matches!(*end, SmallEnd::Alone(_)), "{end:?}");
}

#[test]
fn a_file_without_its_owner_is_a_copy_all_the_same() {
    let mut host = Host::new(Options::default());
    let end = host
        .placer()
        .on_put_answer(small(Path::new("to"), 3), [(PutStep::Owner, Fault::other("not permitted"))]);
    assert!(matches!(end, SmallEnd::Done(_)) && host.report.poll().is_some(), "{end:?}");
    let failures = [PutStep::Xattrs, PutStep::Write].map(|step| (step, Fault::other("full")));
    let end = host.placer().on_put_answer(small(Path::new("to"), 3), failures);
    assert!(matches!(end, SmallEnd::Failed(_, FailedStep::WriteTarget, _)), "{end:?}");
}
