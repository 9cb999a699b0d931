//! A file over SFTP beside a command.

use super::super::diagnose::diagnose;
use super::super::facts::{Facts, Sftp};
use super::super::sftp_file::SftpRates;
use super::{first, good, sender, up};
use crate::flow::Tracer;

fn with(write: f64, read: f64) -> Facts {
    let rates =
        SftpRates { write: Some(write), read: Some(read), at_a_time: 2_097_152.0, ..SftpRates::default() };
    Facts { sftp: Sftp { file: Some(rates), ..Sftp::default() }, ..good() }
}

#[test]
fn sftp_that_is_slower_than_a_command_is_named() {
    let (cause, title) = first(&with(1e6, 9e6));
    let named = "The server's SFTP writes a file at 1.0 MB/s; a command moves 10.0 MB/s on uploads.";
    assert_eq!((cause, title.as_str()), ("sftp_rate", named));
    let found = diagnose(&with(1e6, 9e6)).remove(0);
    assert!(
        found.gain.starts_with("up to 10.0 times") && found.change[0].contains("internal-sftp"),
        "{found:?}"
    );
    assert!(found.evidence.iter().any(|line| line.contains("disk there by itself: 200 MB/s")), "{found:?}");
    let (cause, title) = first(&with(9e6, 2e6));
    assert!(cause == "sftp_rate" && title.contains("SFTP reads a file at 2.0 MB/s"), "{title}");
}

#[test]
fn sftp_is_not_blamed_for_disks_and_round_trips() {
    let is_named = |facts: &Facts| diagnose(facts).iter().any(|found| found.cause == "sftp_rate");
    assert!(!is_named(&with(6e6, 6e6)), "nearly as fast as a command");
    let mut facts = with(1e6, 9e6);
    facts.disks.there.as_mut().unwrap().rate = 1.2e6;
    assert!(!is_named(&facts), "the disk is as slow");
    let mut facts = with(1e6, 9e6);
    up(&mut facts).server.tracer = Some(Tracer { process: 7, name: "strace".to_owned() });
    assert!(!is_named(&facts), "its process is traced");
    // Losses of 0.5 % hold the command back, too, and a file of a second may lose more.
    let mut facts = with(0.2e6, 9e6);
    (up(&mut facts).rate, sender(&mut facts).resent) = (0.6e6, 150.0);
    assert!(!is_named(&facts), "the path loses packets");
    // Recorded on a path that reorders: TCP slowed the file down, and had learned of it for the command.
    let mut facts = with(9e6, 4.7e6);
    facts.throughput.down.flow.as_mut().unwrap().rate = 10.8e6;
    assert!(is_named(&facts));
    let overtaken = facts.throughput.down.flow.as_mut().unwrap().tcp.sender.as_mut().unwrap();
    (overtaken.segments, overtaken.resent, overtaken.spurious, overtaken.reordered) =
        (31_075.0, 178.0, 34.0, 137.0);
    assert!(!is_named(&facts), "the path reorders");
    // A healthy path whose round trips vary: HyStart left a window of 220 segments.
    let mut facts = with(9e6, 4.7e6);
    facts.throughput.down.flow.as_mut().unwrap().rate = 11.8e6;
    assert!(is_named(&facts));
    facts.sftp.file.as_mut().unwrap().congestion_windows[1] = Some(220.0 * 1448.0);
    assert!(!is_named(&facts), "TCP has not grown yet");
    // The path is interrupted again and again.
    let mut facts = with(9e6, 0.2e6);
    assert!(is_named(&facts));
    up(&mut facts).pauses.count = 1;
    facts.throughput.down.flow.as_mut().unwrap().pauses.count = 1;
    assert!(!is_named(&facts), "a pause took most of its time");
    // Two megabytes in each round trip of 50 ms are all that the requests permit.
    let mut facts = with(30e6, 9e6);
    facts.throughput.up.flow.as_mut().unwrap().rate = 300e6;
    assert!(!is_named(&facts));
    facts.sftp.file.as_mut().unwrap().write = Some(3e6);
    assert!(is_named(&facts));
}
