//! Fuzz entry points for the bytes of untrusted peers that the server parses outside the sandbox: monitor IPC
//! of processes that an attacker may control, load balancers' headers, claims on sessions, fields of a
//! logged-in client's requests, files that users write and the monitor reads, and requests for counters.

use lh_resume::message::{Accepted, Message, Request};

use crate::grant::Grant;
use crate::modules::{Order, Report};
use crate::monitor_ipc::{Decision, MonitorRequest, decode_last};
use crate::resuming::{FromClaimant, FromUser, Notice, ToClaimant, ToUser};
use crate::tickets::Record;

/// Decodes requests to the monitor and its replies, then checks that what was decoded survives encoding and
/// decoding.
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
    if let Ok(order) = Order::decode(bytes) {
        let again = order.encode();
        assert_eq!(*Order::decode(&again).expect("what was written can be read").encode(), *again);
    }
    if let Ok(report) = Report::decode(bytes) {
        assert_eq!(Report::decode(&report.encode()).expect("what was written can be read"), report);
    }
    if let Ok(record) = Record::decode(bytes) {
        assert_eq!(Record::decode(&record.encode()).expect("what was written can be read"), record);
    }
}

/// Reads the fields of channel opens, channel requests and global requests of a logged-in client.
pub fn client_fields(bytes: &[u8]) {
    crate::session::fuzz_fields(bytes);
}

/// Reads files that a user writes and the monitor reads: `.shosts`, principals, known hosts.
pub fn trust_files(bytes: &[u8]) {
    crate::monitor::fuzz_files(bytes);
}

/// Reads `~/.ssh/environment`.
pub fn user_environment(bytes: &[u8]) {
    crate::session::fuzz_user_file(bytes);
}

/// Answers a request for the counters.
pub fn counter_request(bytes: &[u8]) {
    crate::listener::fuzz_counter_request(bytes);
}

/// Decodes the header of a load balancer, then checks that the bytes after it do not change the result.
pub fn proxy_header(bytes: &[u8]) {
    if let Ok(Some((client, length))) = crate::proxy_header::parse(bytes) {
        let header = bytes.get(..length).expect("a header is part of what was read");
        assert_eq!(crate::proxy_header::parse(header), Ok(Some((client, length))));
        for end in 0..length {
            assert_eq!(crate::proxy_header::parse(header.get(..end).unwrap_or_default()), Ok(None));
        }
    }
}

/// Decodes the messages about resumed sessions, then checks that they survive encoding and decoding.
pub fn resume_messages(bytes: &[u8]) {
    const AGAIN: &str = "what was written can be read";
    if let Ok(request) = Request::decode(bytes) {
        assert_eq!(Request::decode(&request.to_payload()).expect(AGAIN), request);
    }
    if let Ok(request) = Request::from_fields("ada", bytes) {
        assert_eq!(Request::decode(&request.to_payload()).expect(AGAIN), request);
    }
    if let Ok(accepted) = Accepted::decode(bytes) {
        assert_eq!(Accepted::decode(&accepted.to_payload()).expect(AGAIN), accepted);
    }
    let _ = Message::decode(bytes);
    if let Ok(message) = FromClaimant::decode(bytes) {
        assert_eq!(FromClaimant::decode(&message.encode()).expect(AGAIN), message);
    }
    if let Ok(message) = ToClaimant::decode(bytes) {
        assert_eq!(ToClaimant::decode(&message.encode()).expect(AGAIN), message);
    }
    if let Ok(message) = FromUser::decode(bytes) {
        assert_eq!(FromUser::decode(&message.encode()).expect(AGAIN), message);
    }
    if let Ok(message) = ToUser::decode(bytes) {
        assert_eq!(ToUser::decode(&message.encode()).expect(AGAIN), message);
    }
    if let Ok(Some((notice, length))) = Notice::read(bytes) {
        assert!(length <= bytes.len());
        assert_eq!(Notice::read(&notice.encode()).expect(AGAIN).expect(AGAIN).0, notice);
    }
}
