//! `PerSourcePenalties`: refuses addresses for some time after repeated misbehaviour.
//!
//! Each offence adds some seconds to an address's penalty. While the penalty exceeds the minimum, all
//! connections from there are refused. Times are arguments, so that tests need not wait. (Numbers and rules
//! are OpenSSH's.)

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use lh_config::cidr;
use lh_config::pattern::ListMatch;
use lh_config::server_values::{NetBlockSize, Penalties};

use crate::exit_status::{
    EXIT_AUTH_ATTEMPTED, EXIT_CRASH, EXIT_FAILURE, EXIT_GRACE, EXIT_GRACE_ATTEMPTED, EXIT_GRACE_LOGIN_BEGUN,
    EXIT_INVALID_USER, EXIT_LOGIN_BEGUN, EXIT_REFUSED,
};

/// A group of addresses that count as one: of one family, with an equal network prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Source {
    prefix: u128,
    v6: bool,
}

impl Source {
    /// Returns the source that an address belongs to.
    pub(crate) fn of(address: IpAddr, block: NetBlockSize) -> Self {
        let (prefix, bits, v6) = match address.to_canonical() {
            IpAddr::V4(v4) => (u128::from(u32::from(v4)) << 96, block.ipv4, false),
            IpAddr::V6(v6) => (u128::from(v6), block.ipv6, true),
        };
        let mask = u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0);
        Self { prefix: prefix & mask, v6 }
    }
}

/// An offence of a source address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Offence {
    /// The session process crashed.
    Crash,
    /// A login failed.
    AuthFail,
    /// A login as a user that does not exist.
    InvalidUser,
    /// The client did not try to log in.
    NoAuth,
    /// `LoginGraceTime` ran out.
    GraceExceeded,
    /// `RefuseConnection` prohibited the connection.
    Refused,
}

impl Offence {
    /// Returns the offence for the exit status of a session without a login; `None` for no offence.
    pub(crate) const fn of_status(status: i32) -> Option<Self> {
        Some(match status {
            0 => return None,
            EXIT_GRACE | EXIT_GRACE_ATTEMPTED | EXIT_GRACE_LOGIN_BEGUN => Self::GraceExceeded,
            EXIT_CRASH => Self::Crash,
            EXIT_AUTH_ATTEMPTED => Self::AuthFail,
            EXIT_REFUSED => Self::Refused,
            EXIT_INVALID_USER => Self::InvalidUser,
            _ => Self::NoAuth,
        })
    }

    /// Returns whether a connection with this exit status had no failed login, so that its network path may
    /// simply have failed.
    pub(crate) const fn may_be_a_lost_path(status: i32) -> bool {
        matches!(status, EXIT_LOGIN_BEGUN | EXIT_GRACE_LOGIN_BEGUN) || Self::may_be_a_lost_resumption(status)
    }

    /// Returns whether a connection with this exit status requested nothing, or only the resumption of a
    /// session.
    pub(crate) const fn may_be_a_lost_resumption(status: i32) -> bool {
        matches!(status, EXIT_GRACE | EXIT_FAILURE)
    }

    const fn reason(self) -> &'static str {
        match self {
            Self::Crash => "penalty: caused crash",
            Self::AuthFail => "penalty: failed authentication",
            Self::InvalidUser => "penalty: attempted authentication by invalid user",
            Self::NoAuth => "penalty: connections without attempting authentication",
            Self::GraceExceeded => "penalty: exceeded LoginGraceTime",
            Self::Refused => "penalty: connection prohibited by RefuseConnection",
        }
    }

    const fn time(self, rules: &Penalties) -> Duration {
        match self {
            Self::Crash => rules.crash,
            Self::AuthFail => rules.authfail,
            Self::InvalidUser => rules.invaliduser,
            Self::NoAuth => rules.noauth,
            Self::GraceExceeded => rules.grace_exceeded,
            Self::Refused => rules.refuseconnection,
        }
    }
}

struct Penalty {
    until: Instant,
    /// The penalty has exceeded the minimum: it stays in force until `until`.
    active: bool,
    reason: &'static str,
}

/// The penalties of all sources.
pub(crate) struct Table {
    rules: Penalties,
    exempt: Option<String>,
    penalties: HashMap<Source, Penalty>,
}

/// The result of an offence, for the log.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Consequence {
    /// No penalty comes into force.
    None,
    /// A penalty is in force from now on, for this time; the text is its reason.
    Activated(Duration, &'static str),
}

impl Table {
    pub(crate) fn new(rules: Penalties, exempt: Option<String>) -> Self {
        Self { rules, exempt, penalties: HashMap::new() }
    }

    fn is_exempt(&self, address: IpAddr) -> bool {
        self.exempt.as_deref().is_some_and(|list| cidr::match_list(address, list) == Ok(ListMatch::Yes))
    }

    fn count(&self, v6: bool) -> usize {
        self.penalties.keys().filter(|source| source.v6 == v6).count()
    }

    /// Returns how many sources of a family are stored, and whether a full table lets sources in.
    const fn limit(&self, v6: bool) -> (usize, bool) {
        let rules = &self.rules;
        if v6 {
            (rules.max_sources6 as usize, rules.overflow6_permissive)
        } else {
            (rules.max_sources4 as usize, rules.overflow_permissive)
        }
    }

    /// Returns why a connection from `address` is refused now; `None` when it is not.
    pub(crate) fn refuses(&mut self, address: IpAddr, source: Source, now: Instant) -> Option<&'static str> {
        if !self.rules.enabled || self.is_exempt(address) {
            return None;
        }
        if self.penalties.get(&source).is_some_and(|penalty| penalty.until <= now) {
            self.penalties.remove(&source);
        }
        let (room, permissive) = self.limit(source.v6);
        if !permissive && self.count(source.v6) >= room {
            self.forget_old(now);
            if self.count(source.v6) >= room {
                return Some("penalty: too many penalised sources");
            }
        }
        self.penalties.get(&source).filter(|penalty| penalty.active).map(|penalty| penalty.reason)
    }

    /// Records an offence by this source address.
    pub(crate) fn punish(
        &mut self,
        address: IpAddr,
        source: Source,
        offence: Offence,
        now: Instant,
    ) -> Consequence {
        let time = offence.time(&self.rules);
        if !self.rules.enabled || time.is_zero() || self.is_exempt(address) {
            return Consequence::None;
        }
        let (room, permissive) = self.limit(source.v6);
        if !self.penalties.contains_key(&source) && self.count(source.v6) >= room {
            self.forget_old(now);
            if self.count(source.v6) >= room {
                if !permissive {
                    return Consequence::None;
                }
                self.forget_one(source.v6);
            }
        }
        let (min, max) = (self.rules.min, self.rules.max);
        let penalty = self.penalties.entry(source).or_insert(Penalty {
            until: now,
            active: false,
            reason: offence.reason(),
        });
        if penalty.until <= now {
            penalty.active = false;
        }
        penalty.until = (penalty.until.max(now) + time).min(now + max);
        penalty.reason = offence.reason();
        let left = penalty.until - now;
        if left >= min && !penalty.active {
            penalty.active = true;
            return Consequence::Activated(left, penalty.reason);
        }
        Consequence::None
    }

    fn forget_old(&mut self, now: Instant) {
        self.penalties.retain(|_, penalty| penalty.until > now);
    }

    /// Removes the penalty that would end first, to make room for another.
    fn forget_one(&mut self, v6: bool) {
        let first = self.penalties.iter().filter(|(source, _)| source.v6 == v6).min_by_key(|(_, p)| p.until);
        if let Some(source) = first.map(|(source, _)| *source) {
            self.penalties.remove(&source);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: NetBlockSize = NetBlockSize { ipv4: 32, ipv6: 64 };

    struct Scene {
        table: Table,
        start: Instant,
    }

    impl Scene {
        fn new(rules: &str, exempt: Option<&str>) -> Self {
            let settings = crate::testing::settings(&format!("PerSourcePenalties {rules}"));
            let table = Table::new(settings.per_source_penalties.value.clone(), exempt.map(str::to_owned));
            Self { table, start: Instant::now() }
        }

        fn at(&self, seconds: u64) -> Instant {
            self.start + Duration::from_secs(seconds)
        }

        fn punish(&mut self, address: &str, offence: Offence, seconds: u64) -> Consequence {
            let address: IpAddr = address.parse().unwrap();
            let now = self.at(seconds);
            self.table.punish(address, Source::of(address, BLOCK), offence, now)
        }

        fn refuses(&mut self, address: &str, seconds: u64) -> Option<&'static str> {
            let address: IpAddr = address.parse().unwrap();
            let now = self.at(seconds);
            self.table.refuses(address, Source::of(address, BLOCK), now)
        }
    }

    #[test]
    fn failures_add_up_and_are_forgotten() {
        let mut scene = Scene::new("yes", None);
        // The default: each failure adds 5 seconds, and the penalty starts at 15.
        assert_eq!(scene.punish("192.0.2.1", Offence::AuthFail, 0), Consequence::None);
        assert_eq!(scene.punish("192.0.2.1", Offence::AuthFail, 0), Consequence::None);
        assert_eq!(scene.refuses("192.0.2.1", 0), None);
        let reason = "penalty: failed authentication";
        let expected = Consequence::Activated(Duration::from_secs(15), reason);
        assert_eq!(scene.punish("192.0.2.1", Offence::AuthFail, 0), expected);
        assert_eq!(scene.refuses("192.0.2.1", 14), Some(reason));
        assert_eq!(scene.refuses("192.0.2.2", 14), None);
        assert_eq!(scene.refuses("192.0.2.1", 16), None);
        assert_eq!(scene.punish("192.0.2.1", Offence::AuthFail, 16), Consequence::None);
        assert_eq!(scene.refuses("192.0.2.1", 16), None);
    }

    #[test]
    fn one_crash_is_enough_and_nothing_lasts_for_ever() {
        let mut scene = Scene::new("crash:90 max:100", None);
        assert!(matches!(scene.punish("192.0.2.1", Offence::Crash, 0), Consequence::Activated(..)));
        for _ in 0..50 {
            scene.punish("192.0.2.1", Offence::Crash, 1);
        }
        assert!(scene.refuses("192.0.2.1", 100).is_some());
        assert_eq!(scene.refuses("192.0.2.1", 102), None);
    }

    #[test]
    fn neighbours_suffer_and_the_exempt_do_not() {
        let mut scene = Scene::new("authfail:20", Some("10.0.0.0/8,2001:db8:ffff::/48"));
        scene.punish("2001:db8::1", Offence::AuthFail, 0);
        assert!(scene.refuses("2001:db8::2", 0).is_some());
        assert_eq!(scene.refuses("2001:db8:0:1::2", 0), None);
        scene.punish("10.1.2.3", Offence::Crash, 0);
        assert_eq!(scene.refuses("10.1.2.3", 0), None);
        let mut off = Scene::new("no", None);
        off.punish("192.0.2.1", Offence::Crash, 0);
        assert_eq!(off.refuses("192.0.2.1", 0), None);
    }

    #[test]
    fn the_table_is_bounded() {
        for (mode, newcomer_refused) in [("permissive", false), ("deny-all", true)] {
            let mut scene = Scene::new(&format!("authfail:20 max-sources4:2 overflow:{mode}"), None);
            scene.punish("192.0.2.1", Offence::AuthFail, 0);
            scene.punish("192.0.2.2", Offence::AuthFail, 1);
            scene.punish("192.0.2.3", Offence::AuthFail, 2);
            assert_eq!(scene.table.penalties.len(), 2);
            assert_eq!(scene.refuses("192.0.2.99", 3).is_some(), newcomer_refused);
            assert!(scene.refuses("192.0.2.3", 3).is_some());
            // The other address family has a table of its own, and expired penalties make room.
            assert_eq!(scene.refuses("2001:db8::1", 3), None);
            assert_eq!(scene.refuses("192.0.2.99", 100), None);
        }
    }

    #[test]
    fn exit_statuses_map_to_offences() {
        assert_eq!(Offence::of_status(0), None);
        for (status, offence) in [
            (3, Offence::GraceExceeded),
            (4, Offence::Crash),
            (5, Offence::AuthFail),
            (6, Offence::Refused),
            (7, Offence::InvalidUser),
            (8, Offence::GraceExceeded),
            (255, Offence::NoAuth),
        ] {
            // No status after a failed attempt counts as a lost path.
            assert_eq!(Offence::may_be_a_lost_path(status), [3, 255].contains(&status), "{status}");
            assert_eq!(Offence::of_status(status), Some(offence));
        }
    }
}
