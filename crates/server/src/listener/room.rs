//! Makes room for new connections where `MaxStartups` is reached.

use std::net::IpAddr;
use std::time::Instant;

use lh_config::server_values::NetBlockSize;
use lh_crypto::{Random, SystemRandom};
use rustix::process::{Pid, Signal, kill_process};

use super::{Listener, exporter};
use crate::admission::Answer;
use crate::hand_over::HandOver;
use crate::log::{error, verbose};
use crate::penalties::Source;

/// Returns the source that a connection counts for. IPv6 addresses count by network, because a client may
/// have a whole network of them.
pub(super) fn block_of(hand_over: &HandOver, address: IpAddr) -> Source {
    let block = hand_over.config.per_source_net_block_size.value;
    Source::of(address, NetBlockSize { ipv6: block.ipv6.min(64), ..block })
}

impl Listener {
    /// Applies the limits to one more connection. Returns why it is refused, or `None` when it is admitted,
    /// for which another connection may have been ended.
    pub(super) fn make_room(&mut self, per_address: Source, address: IpAddr) -> Option<&'static str> {
        if let Some(per_source) = self.launch.hand_over.config.per_source_max_startups.value.0 {
            let same = self.startups.iter().filter(|one| one.source == per_address && !one.expected).count();
            if same >= per_source as usize {
                return Some("PerSourceMaxStartups");
            }
        }
        let mut random = [0; 4];
        SystemRandom.fill(&mut random);
        // The remainder of 32 random bits modulo 100 is biased by only two parts in a hundred million.
        let random = u32::from_ne_bytes(random);
        let source = block_of(&self.launch.hand_over, address);
        let mut answer = self.admission.decide(source, Instant::now(), random);
        if answer != Answer::Admit {
            // Sessions may have ended since the last turn.
            self.reap();
            answer = self.admission.decide(source, Instant::now(), random);
        }
        if answer != Answer::Admit && !std::mem::replace(&mut self.throttling, true) {
            error!(self.log, "beginning MaxStartups throttling");
        }
        match answer {
            Answer::Admit => None,
            Answer::Refuse => Some("Maxstartups"),
            Answer::Replace(pid) => {
                self.replace(pid);
                None
            }
        }
    }

    /// Ends an unauthenticated connection whose source has more than the newcomer's.
    fn replace(&mut self, pid: Pid) {
        self.admission.end(pid);
        let Some(at) = self.startups.iter().position(|startup| startup.pid == pid) else { return };
        let startup = self.startups.swap_remove(at);
        let (ip, port) = (startup.peer.ip(), startup.peer.port());
        let waiting = self.startups.len() + 1;
        verbose!(self.log, "end connection #{waiting} from [{ip}]:{port} FairStartups");
        if let Some(running) = self.sessions.running.get_mut(&pid) {
            running.replaced = true;
        }
        let _ = kill_process(pid, Signal::KILL);
        exporter::count(&mut self.exporter, |seen| seen.throttled += 1);
    }
}
