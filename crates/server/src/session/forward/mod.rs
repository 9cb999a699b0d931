//! Forwarding for a client: connections from the server (`direct-tcpip`, `direct-streamlocal@openssh.com`)
//! and listeners on it (`tcpip-forward`, `streamlocal-forward@openssh.com`); RFC 4254 section 7 and OpenSSH's
//! PROTOCOL.
//!
//! The user session process does everything with the user's rights. The kernel reserves ports below 1024 for
//! root, and the file system decides about socket paths. Name lookups and connects run outside the event
//! loop.

mod listeners;
mod offers;
mod permits;
mod replies;
mod requests;
mod state;
mod taking;
mod tcp_table;
mod towards_client;

use std::path::PathBuf;
use std::rc::Rc;

use lh_driver::{ChannelId, ChannelOptions, ControlCx, FdPump, LocalFd, Target, dial};
use lh_sys::errno_text;
use lh_wire::msg::open_failure;

pub(super) use replies::Replies;
pub(super) use state::Forwards;
pub(super) use towards_client::{forwarded, idle_limit};

use crate::hosts::shown_endpoint;
use crate::log::{error, info, shown_name};
use requests::{direct_streamlocal, direct_tcpip};
use towards_client::keep_alive;

impl Forwards {
    /// Opens a channel to a destination. Returns false when the channel type is not about forwarding.
    pub(super) fn open(&self, id: ChannelId, kind: &str, fields: &[u8], cx: &mut ControlCx<'_>) -> bool {
        match kind {
            "direct-tcpip" => match direct_tcpip(fields) {
                Ok((host, port)) => self.open_tcp(id, host, port, cx),
                Err(_) => cx.refuse(id, open_failure::CONNECT_FAILED, "malformed request"),
            },
            "direct-streamlocal@openssh.com" => match direct_streamlocal(fields) {
                Ok(path) => self.open_unix(id, path, cx),
                Err(_) => cx.refuse(id, open_failure::CONNECT_FAILED, "malformed request"),
            },
            _ => return false,
        }
        true
    }

    fn open_tcp(&self, id: ChannelId, host: String, port: u16, cx: &mut ControlCx<'_>) {
        if !permits::may_connect(&self.shared, &host, port) {
            let peer = self.shared.client.peer.get();
            let (from, host) = (shown_endpoint(peer), shown_name(&host));
            info!(
                self.shared.requests_log,
                "Received request from {from} to connect to host {host} port {port}, but the request was denied."
            );
            return cx.refuse(id, open_failure::ADMINISTRATIVELY_PROHIBITED, "open failed");
        }
        let target = Target::Tcp { host: host.clone(), port };
        self.connect(id, "direct-tcpip", format!("{} port {port}", shown_name(&host)), &target, cx);
    }

    fn open_unix(&self, id: ChannelId, path: PathBuf, cx: &mut ControlCx<'_>) {
        if !permits::may_connect_unix(&self.shared) {
            info!(self.shared.requests_log, "refused streamlocal port forward: target {}", path.display());
            return cx.refuse(id, open_failure::ADMINISTRATIVELY_PROHIBITED, "open failed");
        }
        let name = path.display().to_string();
        self.connect(id, "direct-streamlocal@openssh.com", name, &Target::Unix(path), cx);
    }

    fn connect(
        &self,
        id: ChannelId,
        kind: &'static str,
        name: String,
        target: &Target,
        cx: &mut ControlCx<'_>,
    ) {
        let shared = Rc::clone(&self.shared);
        let limit = idle_limit(&shared, kind);
        dial(target, self.family, &self.resolver, cx, move |result, cx| {
            if let Ok(socket) = &result {
                keep_alive(&shared, socket);
            }
            match result.and_then(LocalFd::owned) {
                Ok(fd) => {
                    let pump = Box::new(FdPump::socket(fd).idle_limit(limit));
                    cx.accept(id, &ChannelOptions::default(), b"", pump);
                }
                Err(problem) => {
                    let words = errno_text(&problem);
                    error!(shared.requests_log, "connect_to {name}: failed: {words}");
                    cx.refuse(id, open_failure::CONNECT_FAILED, &words);
                }
            }
        });
    }
}

/// Reads the fields of opens and requests of forwards.
#[cfg(fuzzing)]
pub(super) fn fuzz_fields(fields: &[u8]) {
    let _ = direct_tcpip(fields);
    if let Ok(path) = direct_streamlocal(fields) {
        assert!(!path.as_os_str().is_empty() && !path.as_os_str().as_encoded_bytes().contains(&0));
    }
    for name in ["tcpip-forward", "cancel-streamlocal-forward@openssh.com"] {
        let _ = requests::Listen::request(name, fields);
    }
}
