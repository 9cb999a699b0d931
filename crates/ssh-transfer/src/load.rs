//! Load of a copy's first connection and its thread, from the kernel's counters.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use lh_sys::tcp_info::TcpInfo;
use lh_transfer::{Load, Side};

/// Returns the load of a connection, in place of the kernel's counters. For tests.
pub type Measure = Arc<dyn Fn() -> Load + Send + Sync>;

/// Minimum number of cores for an additional connection. With fewer, its thread would take CPU time from the
/// first connection or from the other end.
const CORES: usize = 3;

/// Number of out-of-order segments that follow one lost segment: the receiver counts those, not the losses.
const BEHIND_A_GAP: f64 = 16.0;

/// Counters of the previous measurement, and the difference to the present ones.
pub(crate) struct LoadMeter {
    /// Replaces the kernel's counters.
    measure: Option<Measure>,
    socket: Option<OwnedFd>,
    /// Direction of the transfer.
    side: Side,
    cores: usize,
    at: Instant,
    cpu: Duration,
    segments: u64,
    lost: u64,
}

/// Returns the CPU time of this thread.
fn thread_cpu() -> Duration {
    rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime).try_into().unwrap_or_default()
}

impl LoadMeter {
    /// Creates counters for the connection with this socket. `measure` replaces them.
    pub(crate) fn new(socket: BorrowedFd<'_>, side: Side, measure: Option<Measure>) -> Self {
        Self {
            measure,
            socket: socket.try_clone_to_owned().ok(),
            side,
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            at: Instant::now(),
            cpu: thread_cpu(),
            segments: 0,
            lost: 0,
        }
    }

    /// Returns the load since the last call, on the thread of the connection's loop.
    pub(crate) fn read(&mut self) -> Load {
        if let Some(measure) = &self.measure {
            return measure();
        }
        let (now, cpu) = (Instant::now(), thread_cpu());
        let passed = now.saturating_duration_since(self.at).as_secs_f64().max(1e-3);
        let busy = cpu.saturating_sub(self.cpu).as_secs_f64() / passed;
        (self.at, self.cpu) = (now, cpu);
        let info = self.socket.as_ref().and_then(TcpInfo::of);
        let count = |name| info.as_ref().and_then(|info| info.get(name)).unwrap_or(0);
        let (segments, lost, weight) = match self.side {
            Side::Target => (count("data_segs_out"), count("total_retrans"), 1.0),
            Side::Source => (count("data_segs_in"), count("rcv_ooopack"), BEHIND_A_GAP),
        };
        let (new, again) = (segments.saturating_sub(self.segments), lost.saturating_sub(self.lost));
        (self.segments, self.lost) = (segments, lost);
        Load { busy, spare_cores: self.cores >= CORES, lost: again as f64 / weight / new.max(1) as f64 }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd as _;

    use super::*;

    #[test]
    fn a_thread_that_works_is_busy_and_a_path_without_loss_has_none() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut far, _) = listener.accept().unwrap();
        let mut meter = LoadMeter::new(near.as_fd(), Side::Target, None);
        near.write_all(&[7; 100_000]).unwrap();
        far.read_exact(&mut [0; 100_000]).unwrap();
        let until = thread_cpu() + Duration::from_millis(30);
        while thread_cpu() < until {}
        let load = meter.read();
        assert!(load.busy > 0.0 && load.lost < 0.5, "{load:?}");
        std::thread::sleep(Duration::from_millis(100));
        assert!(meter.read().busy < 0.5);
    }
}
