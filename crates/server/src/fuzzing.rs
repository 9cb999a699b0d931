//! What the server parses of untrusted peers' bytes outside of the sandbox, for the fuzz targets: messages of
//! a process that an unauthenticated client may have taken over, and headers of load balancers.

use crate::grant::Grant;
use crate::monitor_ipc::{Decision, MonitorRequest, decode_last};

/// Reads a message to the monitor, and its answers; what could be read is written and read again.
pub fn messages(bytes: &[u8]) {
    if let Ok(request) = MonitorRequest::decode(bytes) {
        let again = request.encode();
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

/// Reads the header of a load balancer; what follows it changes nothing.
pub fn proxy_header(bytes: &[u8]) {
    if let Ok(Some((client, length))) = crate::proxy_header::parse(bytes) {
        let header = bytes.get(..length).expect("a header is part of what was read");
        assert_eq!(crate::proxy_header::parse(header), Ok(Some((client, length))));
        for end in 0..length {
            assert_eq!(crate::proxy_header::parse(header.get(..end).unwrap_or_default()), Ok(None));
        }
    }
}
