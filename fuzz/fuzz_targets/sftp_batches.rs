//! Messages of the batched SFTP extensions.
#![no_main]

use lh_sftp::batch::{GetFile, Listing, PutFailure, PutFile, read_got, write_got};
use lh_sftp::batched_extended_attrs;
use lh_wire::Reader;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(failures) = PutFailure::read_all(bytes) {
        let mut again = Vec::new();
        PutFailure::write_all(&failures, &mut again);
        assert_eq!(PutFailure::read_all(&again).map(|read| read.len()), Ok(failures.len()));
    }
    if let Ok(files) = read_got(bytes) {
        let mut again = Vec::new();
        for file in &files {
            write_got(file, &mut again);
        }
    }
    if let Ok(files) = batched_extended_attrs::read_got(bytes) {
        let mut again = Vec::new();
        for (file, xattrs) in &files {
            write_got(file, &mut again);
            batched_extended_attrs::write_got(xattrs.as_ref(), &mut again);
        }
    }
    let _ = Listing::read(bytes);
    let mut reader = Reader::new(bytes);
    while PutFile::read(&mut reader).is_ok() {}
    let mut reader = Reader::new(bytes);
    while GetFile::read(&mut reader).is_ok() {}
});
