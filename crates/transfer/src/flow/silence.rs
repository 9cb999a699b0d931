//! Servers that drop requests, as opposed to slow servers and dead connections.
//!
//! When requests have been on their way for a while and no answer came, one more is sent that costs the
//! server nothing. A server that answers this one and none of those before it has dropped them: SFTP servers
//! answer in order, or nearly so. While it is not answered either, the server is busy or the path is down,
//! and there is nothing to do but wait. Users are told what is awaited after half of that time, but for
//! extended requests: work on a whole file may take as long as that.
//!
//! INIT comes first, so nothing can probe a server that does not answer it. Such a server is given up after a
//! while: it is no SFTP server, or it hangs.

use std::time::{Duration, Instant};

use lh_sftp::PacketType;

/// The patience doubles with each time that requests were dropped, up to this many times.
const MOST_DOUBLED: u32 = 4;

/// Next action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// Nothing is awaited, or the probe's answer.
    Nothing,
    LookAgain(Instant),
    /// Users are to be told that the answer to such a request has not come.
    Tell(PacketType),
    Probe,
    /// The session has not begun in this time, and never will.
    GiveUp(Duration),
}

/// Silence of one channel.
#[derive(Debug, Default)]
pub(crate) struct Silence {
    /// When the last answer came, or the server took data last, or the first request that waits was sent.
    since: Option<Instant>,
    /// A probe is on its way.
    probing: bool,
    /// Users have been told of a silence.
    told: bool,
    /// Users have been told that the answer to INIT has not come.
    told_version: bool,
    /// The server did not answer INIT in time.
    given_up: bool,
    /// Number of times that requests were found to be dropped.
    times: u32,
}

impl Silence {
    /// Something came from the server, or it takes more of what waits to be sent.
    pub(crate) const fn answered(&mut self, now: Instant) {
        if self.since.is_some() {
            self.since = Some(now);
        }
    }

    /// Returns true where [`look_for_version`](Self::look_for_version) has given the server up.
    pub(crate) const fn has_given_up(&self) -> bool {
        self.given_up
    }

    /// `awaited`: the kind of the oldest request without an answer.
    pub(crate) fn check(&mut self, awaited: Option<PacketType>, timeout: Duration, now: Instant) -> Next {
        let Some(kind) = awaited else {
            self.since = None;
            return Next::Nothing;
        };
        let since = *self.since.get_or_insert(now);
        let tell_at = Some(since + timeout / 2).filter(|_| !self.told && kind != PacketType::EXTENDED);
        if tell_at.is_some_and(|at| now >= at) {
            self.told = true;
            return Next::Tell(kind);
        }
        if self.probing {
            return Next::Nothing;
        }
        let at = since + timeout.saturating_mul(1 << self.times.min(MOST_DOUBLED));
        if now < at {
            return Next::LookAgain(tell_at.map_or(at, |tell_at| at.min(tell_at)));
        }
        self.probing = true;
        Next::Probe
    }

    /// Like [`check`](Self::check), while the answer to INIT is awaited. `limit`: time after which the server
    /// is given up.
    pub(crate) fn look_for_version(
        &mut self,
        limit: Option<Duration>,
        timeout: Duration,
        now: Instant,
    ) -> Next {
        let since = *self.since.get_or_insert(now);
        let tell_at = Some(since + timeout / 2).filter(|_| !self.told_version);
        if tell_at.is_some_and(|at| now >= at) {
            self.told_version = true;
            return Next::Tell(PacketType::INIT);
        }
        let give_up_at = limit.map(|limit| since + limit);
        match give_up_at.zip(limit).filter(|(at, _)| now >= *at) {
            Some((_, limit)) => {
                self.given_up = true;
                Next::GiveUp(limit)
            }
            None => tell_at.into_iter().chain(give_up_at).min().map_or(Next::Nothing, Next::LookAgain),
        }
    }

    /// The probe was answered. `dropped`: requests that were sent before it were not.
    pub(crate) const fn probed(&mut self, dropped: bool, now: Instant) {
        self.probing = false;
        self.since = Some(now);
        if dropped {
            self.times = self.times.saturating_add(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(60);

    const OPEN: Option<PacketType> = Some(PacketType::OPEN);

    #[test]
    fn a_probe_is_sent_after_complete_silence_only() {
        let (mut silence, mut now) = (Silence::default(), Instant::now());
        assert_eq!(silence.check(None, TIMEOUT, now), Next::Nothing);
        for _ in 0..100 {
            assert_eq!(silence.check(OPEN, TIMEOUT, now), Next::LookAgain(now + TIMEOUT / 2));
            now += TIMEOUT / 2 - Duration::from_secs(1);
            silence.answered(now);
        }
        assert_eq!(silence.check(OPEN, TIMEOUT, now + TIMEOUT), Next::Tell(PacketType::OPEN));
        assert_eq!(silence.check(OPEN, TIMEOUT, now + TIMEOUT), Next::Probe);
        assert_eq!(silence.check(OPEN, TIMEOUT, now + TIMEOUT * 9), Next::Nothing, "one at a time");
    }

    #[test]
    fn users_are_told_once_after_half_of_the_time() {
        let (mut silence, now) = (Silence::default(), Instant::now());
        assert_eq!(silence.check(OPEN, TIMEOUT, now), Next::LookAgain(now + TIMEOUT / 2));
        assert_eq!(silence.check(OPEN, TIMEOUT, now + TIMEOUT / 2), Next::Tell(PacketType::OPEN));
        assert_eq!(silence.check(OPEN, TIMEOUT, now + TIMEOUT / 2), Next::LookAgain(now + TIMEOUT));
        silence.answered(now + TIMEOUT / 2);
        let later = now + TIMEOUT;
        assert_eq!(silence.check(OPEN, TIMEOUT, later), Next::LookAgain(later + TIMEOUT / 2));
    }

    #[test]
    fn slow_extended_requests_are_not_reported_to_users() {
        let (mut silence, now) = (Silence::default(), Instant::now());
        let extended = Some(PacketType::EXTENDED);
        assert_eq!(silence.check(extended, TIMEOUT, now), Next::LookAgain(now + TIMEOUT));
        assert_eq!(silence.check(extended, TIMEOUT, now + TIMEOUT / 2), Next::LookAgain(now + TIMEOUT));
        assert_eq!(silence.check(extended, TIMEOUT, now + TIMEOUT), Next::Probe);
        silence.probed(false, now + TIMEOUT);
        let later = now + TIMEOUT;
        assert_eq!(silence.check(OPEN, TIMEOUT, later), Next::LookAgain(later + TIMEOUT / 2));
        assert_eq!(silence.check(OPEN, TIMEOUT, later + TIMEOUT / 2), Next::Tell(PacketType::OPEN));
    }

    #[test]
    fn a_server_that_does_not_answer_init_is_given_up() {
        let (mut silence, now) = (Silence::default(), Instant::now());
        let limit = Some(TIMEOUT * 5);
        assert_eq!(silence.look_for_version(limit, TIMEOUT, now), Next::LookAgain(now + TIMEOUT / 2));
        let told = now + TIMEOUT / 2;
        assert_eq!(silence.look_for_version(limit, TIMEOUT, told), Next::Tell(PacketType::INIT));
        assert_eq!(silence.look_for_version(limit, TIMEOUT, told), Next::LookAgain(now + TIMEOUT * 5));
        assert_eq!(silence.look_for_version(None, TIMEOUT, now + TIMEOUT * 5), Next::Nothing);
        assert!(!silence.has_given_up());
        let given_up = Next::GiveUp(TIMEOUT * 5);
        assert_eq!(silence.look_for_version(limit, TIMEOUT, now + TIMEOUT * 5), given_up);
        assert!(silence.has_given_up());
    }

    #[test]
    fn a_slow_start_does_not_hide_a_later_silence() {
        let (mut silence, now) = (Silence::default(), Instant::now());
        silence.look_for_version(None, TIMEOUT, now);
        let told = now + TIMEOUT / 2;
        assert_eq!(silence.look_for_version(None, TIMEOUT, told), Next::Tell(PacketType::INIT));
        silence.answered(told);
        assert_eq!(silence.check(OPEN, TIMEOUT, told), Next::LookAgain(told + TIMEOUT / 2));
        assert_eq!(silence.check(OPEN, TIMEOUT, told + TIMEOUT / 2), Next::Tell(PacketType::OPEN));
    }

    #[test]
    fn answers_restart_the_timeout() {
        let (mut silence, now) = (Silence::default(), Instant::now());
        silence.check(OPEN, TIMEOUT, now);
        silence.check(None, TIMEOUT, now + TIMEOUT);
        let later = now + TIMEOUT * 5;
        assert_eq!(silence.check(OPEN, TIMEOUT, later), Next::LookAgain(later + TIMEOUT / 2));
    }

    #[test]
    fn patience_grows_with_each_loss_up_to_a_bound() {
        let (mut silence, mut now) = (Silence { told: true, ..Silence::default() }, Instant::now());
        for times in [1, 2, 4, 8, 16, 16, 16] {
            assert_eq!(silence.check(OPEN, TIMEOUT, now), Next::LookAgain(now + TIMEOUT * times));
            now += TIMEOUT * times;
            assert_eq!(silence.check(OPEN, TIMEOUT, now), Next::Probe);
            silence.probed(true, now);
        }
    }
}
