//! What the processes of one connection read from each other, for the fuzz targets: the monitor reads what a process says
//! that an unauthenticated client may have taken over.

use crate::grant::Grant;
use crate::monitor_ipc::{Decision, MonitorRequest, decode_last};

/// Reads a message to the monitor, and its answers; what could be read is written and read again.
pub fn messages(bytes: &[u8]) {
    if let Ok(question) = MonitorRequest::decode(bytes) {
        let again = question.encode();
        let read = MonitorRequest::decode(&again).expect("what was written can be read");
        assert_eq!(*read.encode(), *again);
    }
    if let Ok(decision) = Decision::decode(bytes) {
        assert_eq!(Decision::decode(&decision.encode()).expect("what was written can be read"), decision);
    }
    if let Ok(grant) = Grant::decode(bytes) {
        let again = grant.encode();
        assert_eq!(*Grant::decode(&again).expect("what was written can be read").encode(), *again);
    }
    let _ = decode_last(bytes);
}
