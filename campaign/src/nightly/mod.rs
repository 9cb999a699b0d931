//! A nightly job: a tree of many small files that `lhscp --sync` brings to the other end of a long path, and
//! that is killed on the way.
//!
//! For each direction: the first run is killed, so is the second, and the third brings the tree. Then nothing
//! has changed, is compared by contents, and a hundredth changes. After each run that ends, both trees, the
//! counts and the manifest must agree. rsync makes the runs that can be compared; its times are only shown.

mod runs;
mod trees;

use std::time::Duration;

use lh_interop::path::{Path, Traits};
use lh_interop::{Lab, Lhsshd, find, me};

use runs::{Job, Run};
use trees::Tree;

/// Files of the short form.
const SHORT: u64 = 2_000;

/// Seconds that a copy takes at least that is to be killed.
const LONG_ENOUGH: u64 = 8;

/// Round trip of the path where none is given.
const ROUND_TRIP: Duration = Duration::from_millis(50);

/// Plan of a run.
#[derive(Debug, Default)]
pub struct Plan {
    /// Number of files; 2000 by default.
    pub files: Option<u64>,
    /// Round trip of the path, ms; 50 by default.
    pub round_trip: Option<u64>,
    /// Runs only the direction whose name (`upload`, `download`) contains this.
    pub only: Option<String>,
}

/// Runs the job in both directions and prints a table.
///
/// # Errors
/// The first violation: trees that differ, a wrong count or exit status, a manifest that is not that of the
/// tree, or a part file that stays.
pub fn campaign(plan: &Plan) -> Result<(), String> {
    let files = plan.files.unwrap_or(SHORT).max(100);
    let round_trip = plan.round_trip.map_or(ROUND_TRIP, Duration::from_millis);
    println!("nightly: {files} files, round trip {} ms", round_trip.as_millis());
    println!("{:<10} {:<34} {:>9} {:>9} {:>10}", "direction", "run", "lhscp s", "rsync s", "lhscp MiB");
    for up in [true, false] {
        let name = if up { "upload" } else { "download" };
        if plan.only.as_deref().is_none_or(|only| name.contains(only)) {
            direction(name, up, files, round_trip).map_err(|error| format!("{name}: {error}"))?;
        }
    }
    Ok(())
}

fn direction(name: &str, up: bool, files: u64, round_trip: Duration) -> Result<(), String> {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "");
    let tree = Tree::make(&lab.path("source/tree"), files).map_err(|error| format!("a tree: {error}"))?;
    let traits = Traits::long(round_trip / 2);
    let path = Path::to(server.port, traits);
    // What is to be killed goes over a narrow path, and takes long enough. A rate limit of lhscp would make
    // it another copy: without batches.
    let rate = Some(tree.rate_for(Duration::from_secs(LONG_ENOUGH.max(files / 5000))));
    let narrow = Path::to(server.port, Traits { rate, shared: true, ..traits });
    lab.know(path.port);
    lab.know(narrow.port);
    std::fs::create_dir_all(lab.path("copy")).map_err(|error| error.to_string())?;
    let job = Job::new(&lab, path.port, up, &me());
    let show = |run: &str, ours: &Run, theirs: Option<Duration>| {
        let theirs = theirs.map_or_else(|| "-".to_owned(), |time| format!("{:.2}", time.as_secs_f64()));
        let ours_s = ours.took.as_secs_f64();
        println!("{name:<10} {run:<34} {ours_s:>9.2} {theirs:>9} {:>10}", ours.peak_mib);
    };
    for (run, part) in [("first, killed at a fifth", 5), ("second, killed at a half", 2)] {
        show(run, &job.kill_at(tree.files / part, narrow.port)?, None);
    }
    let third = job.sync(&["--delete", "--manifest-out", &lab.arg("manifest")])?;
    third.expect("deleted", 0)?;
    trees::compare(&lab.path("source"), &lab.path("copy"))?;
    trees::check_manifest(&lab.read("manifest"), tree.files)?;
    show("third, to the end", &third, None);

    let rsync = find("rsync");
    let rsync = rsync.as_deref();
    let same = job.sync(&["--delete"])?;
    same.expect("files", 0)?;
    same.expect("unchanged", tree.files)?;
    show("nothing has changed", &same, job.rsync(rsync, &["--delete"])?);

    let contents = job.sync(&["--checksum"])?;
    contents.expect("files", 0)?;
    contents.expect("unchanged", tree.files)?;
    show("nothing has changed, --checksum", &contents, job.rsync(rsync, &["--checksum"])?);

    let changes = tree.change(&lab.path("copy/tree")).map_err(|error| format!("changes: {error}"))?;
    let last = job.sync(&["--delete", "--manifest-out", &lab.arg("manifest")])?;
    last.expect("files", changes.written)?;
    last.expect("deleted", changes.deleted)?;
    trees::compare(&lab.path("source"), &lab.path("copy"))?;
    trees::check_manifest(&lab.read("manifest"), tree.files - changes.removed)?;
    show("a hundredth has changed, --delete", &last, None);
    Ok(())
}
