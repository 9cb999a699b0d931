//! One connection that has not authenticated, as the listener sees it: its session process, and what is still to be told that.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::Instant;

use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use rustix::process::Pid;

use crate::penalties::Source;
use crate::tickets::{TAKE, TAKE_LENGTH, Tickets};

/// See the module documentation.
pub(super) struct Startup {
    pub(super) control: OwnedFd,
    pub(super) pid: Pid,
    pub(super) peer: SocketAddr,
    pub(super) source: Source,
    pub(super) deadline: Option<Instant>,
    /// There is a ticket for it: it is no unauthenticated client that logs in.
    pub(super) expected: bool,
    /// How much of the hand-over the session process has taken.
    pub(super) handed_over: usize,
}

impl Startup {
    /// What to wait for: word of the session process, and room for what it has not been told of `hand_over`.
    pub(super) fn interest(&self, hand_over: &[u8]) -> PollFlags {
        if self.handed_over < hand_over.len() { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN }
    }

    /// Tells the session process more of the hand-over, as much as fits. Never waits: a process that is stopped, or waits for a disk,
    /// must not keep others from being let in.
    pub(super) fn push(&mut self, hand_over: &[u8]) {
        while let Some(rest) = hand_over.get(self.handed_over..).filter(|rest| !rest.is_empty()) {
            match send(&self.control, rest, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Ok(sent) => self.handed_over += sent,
                Err(Errno::INTR) => {}
                // It has ended, which is found out when its end is looked at.
                Err(error) if error != Errno::AGAIN => self.handed_over = hand_over.len(),
                Err(_) => return,
            }
        }
    }

    /// Gives the session what the ticket is worth that its client has shown; false when it wants something else.
    pub(super) fn answer_joiner(&self, tickets: &mut Tickets, now: Instant) -> bool {
        let mut request = [0; TAKE_LENGTH];
        let look = RecvFlags::DONTWAIT | RecvFlags::PEEK;
        let all = matches!(recv(&self.control, &mut request, look), Ok((TAKE_LENGTH, _)));
        let (TAKE, Some(id)) = (request[0], request[1..].first_chunk().filter(|_| all)) else {
            return false;
        };
        let _ = recv(&self.control, &mut [0; TAKE_LENGTH][..], RecvFlags::DONTWAIT);
        let record = tickets.take(id, now).unwrap_or_default();
        let mut answer = u32::try_from(record.len()).unwrap_or_default().to_be_bytes().to_vec();
        answer.extend_from_slice(&record);
        // Its socket is empty, so this fits.
        let _ = send(&self.control, &answer, SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lh_config::server_values::NetBlockSize;
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_session_that_does_not_read_holds_nobody_up() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let peer: SocketAddr = ([127, 0, 0, 1], 7).into();
        let mut startup = Startup {
            control: ours.into(),
            pid: rustix::process::getpid(),
            peer,
            source: Source::of(peer.ip(), NetBlockSize { ipv4: 32, ipv6: 64 }),
            deadline: None,
            expected: false,
            handed_over: 0,
        };
        // More than a socket holds.
        let hand_over: Vec<u8> = (0..8_u32 << 20).map(|at| at as u8).collect();
        startup.push(&hand_over);
        assert!(startup.handed_over < hand_over.len());
        assert_eq!(startup.interest(&hand_over), PollFlags::IN | PollFlags::OUT);
        let mut got = Vec::new();
        let mut buffer = vec![0; 1 << 20];
        while got.len() < hand_over.len() {
            let n = theirs.read(&mut buffer).unwrap();
            got.extend_from_slice(&buffer[..n]);
            startup.push(&hand_over);
        }
        assert!(got == hand_over);
        assert_eq!(startup.interest(&hand_over), PollFlags::IN);
        drop(theirs);
        startup.handed_over = 0;
        startup.push(&hand_over);
        assert_eq!(startup.interest(&hand_over), PollFlags::IN);
    }
}
