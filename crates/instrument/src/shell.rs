//! Short scripts for the server's shell, and facts about its system.

use std::collections::HashMap;
use std::net::IpAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use lh_client::{SessionSetup, Start};

use crate::command::sh;
use crate::fault::Fault;
use crate::memory::{self, MemoryGroups};
use crate::quota;
use crate::target::Remote;
use crate::task::{Data, Opens, Shown, Task};

/// Time limit of a short command.
pub(crate) const SHORT: Duration = Duration::from_secs(15);

/// Time limit of a few bytes of output.
const ARRIVES: Duration = Duration::from_millis(2500);

/// Settings of the kernel that are looked at, in `/proc/sys/net/ipv4`.
const SETTINGS: [&str; 9] = [
    "tcp_rmem",
    "tcp_wmem",
    "tcp_congestion_control",
    "tcp_available_congestion_control",
    "tcp_mtu_probing",
    "tcp_window_scaling",
    "tcp_sack",
    "tcp_moderate_rcvbuf",
    "tcp_no_ssthresh_metrics_save",
];

/// Tells about the system. Each line is `name=value`; what a system lacks is empty.
fn system_script() -> String {
    format!(
        r#"
{}
{}
echo "system=$(uname -sr)"
echo "shell=$SHELL"
echo "cores=$(getconf _NPROCESSORS_ONLN 2>/dev/null)"
echo "load=$(cat /proc/loadavg 2>/dev/null)"
route=$(ip -o route get "${{SSH_CONNECTION%% *}}" 2>/dev/null)
echo "route=$route"
echo "metrics=$(ip tcp_metrics show "${{SSH_CONNECTION%% *}}" 2>/dev/null | head -n 1)"
set -- $route; while [ $# -gt 1 ] && [ "$1" != dev ]; do shift; done
[ -e "/sys/class/net/$2/tun_flags" ] || echo "speed=$(cat "/sys/class/net/$2/speed" 2>/dev/null)"
echo "memory=$(w)"
cd /proc/sys/net/ipv4 2>/dev/null && for name in {}; do
echo "$name=$(cat $name 2>/dev/null)"
done
"#,
        quota::ROOT,
        memory::FUNCTION,
        SETTINGS.join(" ")
    )
}

/// Facts about the server's system, from its shell.
#[derive(Debug, Clone, Default)]
pub(crate) struct System {
    values: HashMap<String, String>,
    /// First line of what the shell itself printed before the script: its start-up files, or a forced
    /// command.
    pub(crate) noise: Option<String>,
}

impl System {
    fn parse(text: &str) -> Self {
        let values = text.lines().filter_map(|line| line.split_once('='));
        let before = text.lines().take_while(|line| !line.starts_with("system="));
        let noise = before.map(str::trim).find(|line| !line.is_empty()).map(lh_client::sanitise);
        Self {
            values: values.map(|(name, value)| (name.to_owned(), value.trim().to_owned())).collect(),
            noise,
        }
    }

    /// Values by their names.
    #[cfg(test)]
    pub(crate) fn from_pairs(values: &[(&str, &str)]) -> Self {
        Self {
            values: values.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
            noise: None,
        }
    }

    /// The values of this machine, with its route to an address.
    pub(crate) fn here(to: Option<IpAddr>) -> Self {
        let read = |name: &str| std::fs::read_to_string(format!("/proc/sys/net/ipv4/{name}")).ok();
        let values =
            SETTINGS.into_iter().filter_map(|name| Some((name.to_owned(), read(name)?.trim().to_owned())));
        let ip = |name: &str, words: &[&str]| {
            let done = Command::new("ip").args(words).arg(to?.to_string()).output().ok()?;
            let line =
                String::from_utf8_lossy(&done.stdout).lines().next().unwrap_or_default().trim().to_owned();
            Some((name.to_owned(), line))
        };
        let told = [ip("route", &["-o", "route", "get"]), ip("metrics", &["tcp_metrics", "show"])];
        // Root may choose any.
        let allowed = (!lh_sys::ids::is_root()).then(|| read(ALLOWED)).flatten();
        let allowed = allowed.map(|names| (ALLOWED.to_owned(), names.trim().to_owned()));
        let values = values.chain(told.into_iter().flatten()).chain(allowed);
        let mut system = Self { values: values.collect(), noise: None };
        let device = system.route_device().map(|name| format!("/sys/class/net/{name}"));
        // TUN devices report 10 Mb/s whatever they carry.
        let device = device.filter(|device| !Path::new(&format!("{device}/tun_flags")).exists());
        let speed = device.and_then(|device| std::fs::read_to_string(format!("{device}/speed")).ok());
        system.values.extend(speed.map(|speed| ("speed".to_owned(), speed.trim().to_owned())));
        system
    }

    /// Returns whether the script of [`system_script`] has run: a forced command may answer something else.
    fn is_told(&self) -> bool {
        self.values.contains_key("system")
    }

    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// The third number of `tcp_rmem` or `tcp_wmem`, bytes.
    pub(crate) fn buffer_limit(&self, name: &str) -> Option<f64> {
        self.text(name)?.split_whitespace().nth(2)?.parse().ok()
    }

    /// The size with which a buffer begins, bytes: the second number.
    pub(crate) fn first_buffer(&self, name: &str) -> Option<f64> {
        self.text(name)?.split_whitespace().nth(1)?.parse().ok()
    }

    /// The device of the route to the other end.
    pub(crate) fn route_device(&self) -> Option<&str> {
        self.text("route")?.split_whitespace().skip_while(|word| *word != "dev").nth(1)
    }

    /// Speed of that device, bytes/s, where its driver knows one.
    pub(crate) fn route_speed(&self) -> Option<f64> {
        let megabits: f64 = self.text("speed")?.parse().ok()?;
        (megabits > 0.0).then_some(megabits * 125_000.0)
    }

    /// The largest window that the route to the other end permits, bytes, where it has a limit.
    pub(crate) fn route_window(&self) -> Option<f64> {
        self.route_number("window")
    }

    /// A number of the route to the other end, which may be locked (`cwnd lock 10`).
    pub(crate) fn route_number(&self, name: &str) -> Option<f64> {
        let words = self.text("route")?.split_whitespace().skip_while(|word| *word != name).skip(1);
        words.filter(|word| *word != "lock").map_while(|word| word.parse().ok()).next()
    }

    /// The command that gives the other end a route of its own, which is the present one without the metric
    /// `without`, and with `with` in addition; `None` where the route is not understood. A person runs it:
    /// words with other characters than those of names and numbers are none of a route.
    pub(crate) fn route_command(&self, without: &str, with: &str) -> Option<String> {
        let words: Vec<&str> = self.text("route")?.split_whitespace().collect();
        let address: IpAddr = words.first()?.parse().ok()?;
        let value = |name: &str| {
            let after = words.iter().skip_while(|word| **word != name).skip(1);
            let is_locked = after.clone().next() == Some(&"lock");
            let value = after.copied().find(|word| *word != "lock")?;
            Some(format!("{name} {}{value}", if is_locked { "lock " } else { "" }))
        };
        // What the kernel has learned of the path expires.
        let is_learned = words.contains(&"expires");
        let kept = ROUTE_WORDS.iter().filter(|name| **name != without && !(is_learned && **name == "mtu"));
        let kept: Vec<String> = kept.filter_map(|name| value(name)).collect();
        let command = [format!("ip route replace {address}"), kept.join(" "), with.to_owned()];
        let command = command.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ");
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || " .:-_@".contains(letter);
        (command.chars().all(is_plain) && !words.contains(&"inet6")).then_some(command)
    }

    /// The memory groups of the SSH process that have a limit, before any transfer.
    pub(crate) fn memory(&self) -> MemoryGroups {
        self.text("memory").map(memory::groups).unwrap_or_default()
    }

    /// Returns whether the system has this congestion control.
    pub(crate) fn has_congestion_control(&self, name: &str) -> bool {
        self.text("tcp_available_congestion_control").is_some_and(|all| names(all, name))
    }

    /// Returns whether nothing forbids programs of this user to choose this congestion control.
    pub(crate) fn permits_congestion_control(&self, name: &str) -> bool {
        self.text(ALLOWED).is_none_or(|all| names(all, name))
    }

    /// Returns whether programs of this user may choose this congestion control.
    pub(crate) fn may_choose_congestion_control(&self, name: &str) -> bool {
        self.has_congestion_control(name) && self.permits_congestion_control(name)
    }
}

/// The congestion controls that programs without rights may choose.
const ALLOWED: &str = "tcp_allowed_congestion_control";

/// Returns whether a list of words has this one.
fn names(list: &str, name: &str) -> bool {
    list.split_whitespace().any(|each| each == name)
}

/// Words of a route, as `ip route get` shows it, that a route for one host has as well.
const ROUTE_WORDS: [&str; 11] =
    ["via", "dev", "src", "mtu", "advmss", "window", "cwnd", "ssthresh", "initcwnd", "initrwnd", "congctl"];

/// Characters of an answer that are shown.
const LONGEST_ANSWER: usize = 100;

impl Remote {
    /// Runs a short script; its output is kept.
    pub(crate) fn script(&mut self, script: &str, limit: Duration) -> Shown {
        self.run(Task {
            opens: Opens::Session(SessionSetup::new(Start::Exec(sh(script)))),
            data: Data::Keep,
            input: Vec::new(),
            sample: None,
            ping: None,
            limit,
            hold: None,
            comparison: None,
        })
    }

    /// Returns whether a command's output of this size, bytes, arrives.
    pub(crate) fn arrives(&mut self, size: u64) -> bool {
        let wanted = usize::try_from(size).unwrap_or(usize::MAX);
        // It waits for the end of its input, so that nothing shares a packet with the output.
        let script = format!("head -c {size} /dev/zero; read x");
        let shown = self.run(Task {
            opens: Opens::Session(SessionSetup::new(Start::Exec(sh(&script)))),
            data: Data::Hold,
            input: Vec::new(),
            sample: None,
            ping: None,
            limit: ARRIVES,
            hold: Some(Box::new(move |out| out.len() < wanted)),
            comparison: None,
        });
        shown.moved.received >= size
    }

    /// Returns facts about the server's system, from its shell.
    ///
    /// # Errors
    /// The server runs no commands for this user.
    pub(crate) fn system(&mut self) -> Result<System, Fault> {
        let shown = self.script(&system_script(), SHORT);
        match shown.failure {
            Some(failure) => Err(Fault::NoCommands(failure)),
            None if shown.moved.received == 0 => {
                let status = shown.status.unwrap_or(255);
                let said = first_line(&shown.err_text());
                Err(Fault::NoCommands(format!("commands give no output (status {status}){said}")))
            }
            None => Some(System::parse(&shown.text())).filter(System::is_told).ok_or_else(|| {
                let said = first_line(&shown.text());
                Fault::NoCommands(format!("another program answers in place of the shell{said}"))
            }),
        }
    }
}

/// The first words of an answer, quoted, after a colon; nothing where it has none.
fn first_line(answer: &str) -> String {
    let line = answer.lines().map(str::trim).find(|line| !line.is_empty());
    let short = |line: &str| lh_client::sanitise(&line.chars().take(LONGEST_ANSWER).collect::<String>());
    line.map_or_else(String::new, |line| format!(": \"{}\"", short(line)))
}

/// Processor time in a line of `/proc/PID/stat`, seconds.
pub(crate) fn cpu_of_stat(line: &str) -> Option<f64> {
    let [user, system, ..] = times_of_stat(line)?;
    Some(user + system)
}

/// Like [`cpu_of_stat`], with the children that have ended (`cutime`, `cstime`).
pub(crate) fn cpu_with_children_of_stat(line: &str) -> Option<f64> {
    Some(times_of_stat(line)?.iter().sum())
}

/// User and system time of a process, and of its children that have ended (proc(5)), seconds.
fn times_of_stat(line: &str) -> Option<[f64; 4]> {
    /// Unit of the times for programs on Linux (`USER_HZ`), per second.
    const TICKS: f64 = 100.0;
    let (_, rest) = line.rsplit_once(')')?;
    let fields = rest.split_whitespace().skip(11).map_while(|word| word.parse::<f64>().ok());
    let times: Vec<f64> = fields.map(|ticks| ticks / TICKS).take(4).collect();
    times.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_of_other_programs_are_quoted() {
        let said = first_line("\n  This service allows sftp connections only.\r\n");
        assert_eq!(said, ": \"This service allows sftp connections only.\"");
        assert_eq!(first_line(" \n"), "");
        assert!(first_line("\x1b[31mred\n").starts_with(": \"\\"), "{}", first_line("\x1b[31mred"));
    }

    #[test]
    fn speed_of_a_device_is_one_that_its_driver_knows() {
        let speed = |text| System::from_pairs(&[("speed", text)]).route_speed();
        assert_eq!(speed("1000"), Some(125e6));
        assert_eq!([speed("-1"), speed("0"), speed("")], [None; 3]);
        // Of loopback there is none, and the script says nothing else.
        let mut command = Command::new("/bin/sh");
        command.arg("-c").arg(system_script()).env("SSH_CONNECTION", "127.0.0.1 1 127.0.0.1 22");
        let done = command.output().expect("a shell");
        let told = System::parse(&String::from_utf8_lossy(&done.stdout));
        assert!(told.is_told() && told.route_speed().is_none() && done.stderr.is_empty(), "{done:?}");
    }

    #[test]
    fn processor_time_follows_the_name() {
        let line = "12 (sshd-session: a) b) S 1 1 1 0 -1 4194560 1 0 0 0 150 25 0 0 20 0 1 0 9 0 0";
        assert_eq!(cpu_of_stat(line), Some(1.75));
        assert_eq!(cpu_of_stat("12 x"), None);
        let line = "12 (sshd: a) b) S 1 1 1 0 -1 4194560 1 0 0 0 150 25 1000 25 20 0 1 0 9 0 0";
        assert_eq!(cpu_with_children_of_stat(line), Some(12.0));
        assert_eq!(cpu_with_children_of_stat("12 (x) S 1 1"), None);
    }

    #[test]
    fn output_of_start_up_files_is_kept_apart() {
        let told = System::parse("Welcome to h\u{1b}!\nx=1\nsystem=Linux 6\nshell=/bin/sh\n");
        assert_eq!(told.noise.as_deref(), Some("Welcome to h\\033!"));
        assert!(told.is_told() && System::parse("system=Linux 6\n").noise.is_none());
    }

    #[test]
    fn congestion_controls_of_root_are_no_choice_of_users() {
        let available = ("tcp_available_congestion_control", "reno cubic bbr");
        let may =
            |values: &[(&str, &str)], name| System::from_pairs(values).may_choose_congestion_control(name);
        assert!(may(&[available], "bbr") && !may(&[available], "bb") && !may(&[], "bbr"));
        let all = [available, (ALLOWED, "reno cubic")];
        assert!(may(&all, "cubic") && !may(&all, "bbr"));
    }

    #[test]
    fn system_values_are_found_by_name() {
        let system = System::parse("tcp_rmem=4096\t131072\t6291456\nshell=/bin/bash\ntcp_mtu_probing=\n");
        assert_eq!(system.buffer_limit("tcp_rmem"), Some(6_291_456.0));
        assert_eq!((system.text("shell"), system.text("tcp_mtu_probing")), (Some("/bin/bash"), None));
        assert_eq!((system.first_buffer("tcp_rmem"), system.route_window()), (Some(131_072.0), None));
        let system = System::parse("route=10.0.0.2 dev e src 10.0.0.1 uid 0 \\    cache window 65536\n");
        assert_eq!(system.route_window(), Some(65_536.0));
    }
}
