//! Real-life set-ups, run with OpenSSH's programs and with ours. The outputs that a user sees are compared.
//!
//! Every run has a separate world that vanishes with its last process: a copy-on-write view of this machine's
//! file system, and separate users, processes, network and host name. Recipes may add user accounts, fill
//! disks and break `/dev` there. In a world of ours, `/usr/bin/ssh`, `/usr/sbin/sshd` and their relatives
//! *are* our programs. So third-party tools, configuration files and scripts find them in OpenSSH's places.

use std::fmt::Write as _;
use std::path::Path;

use crate::{Lab, bin_dir, fetched_peers, has_pam, is_root, peers, process, skip, skip_unavailable};

/// Ends that are replaced by ours, besides replacing both ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ends {
    /// The client alone, the server alone, and both.
    Each,
    /// The server alone: the client has no influence on the compared output.
    Server,
    /// The client alone.
    Client,
}

/// A set-up: shell scripts for its users.
#[derive(Clone, Copy, Debug)]
pub struct Recipe {
    /// Third-party programs that it requires.
    pub tools: &'static [&'static str],
    /// Programs that `cargo xtask peers` has fetched and built, as paths below its directory. The worlds have
    /// them in `/opt/peers`.
    pub fetched: &'static [&'static str],
    /// Lines of `sshd_config`. Those before the first `Match` precede Debian's own, the others follow them.
    pub server: &'static str,
    /// `~/.ssh/config` of the user `me`.
    pub config: &'static str,
    /// Script that root runs before the server starts; every command must succeed. See `world.sh` for the
    /// helpers.
    pub setup: &'static str,
    /// Script that the user `me` runs.
    pub client: &'static str,
    /// Script that root runs afterwards, to show the results.
    pub look: &'static str,
    /// Texts that OpenSSH's transcript must contain, to show that the recipe works.
    pub sees: &'static [&'static str],
    /// Accepted differences: our text, OpenSSH's text in its place, and the reason. Either text may be empty.
    /// A difference that no longer occurs is an error.
    pub differs: &'static [(&'static str, &'static str, &'static str)],
    /// Ends that are replaced.
    pub ends: Ends,
    /// Logs in with `UsePAM yes`, and needs a server that is built with PAM. Other recipes use PAM if both
    /// servers have it.
    pub pam: bool,
}

/// An empty recipe, for the rest of a literal.
pub const RECIPE: Recipe = Recipe {
    tools: &[],
    fetched: &[],
    server: "",
    config: "",
    setup: "",
    client: "",
    look: "",
    sees: &[],
    differs: &[],
    ends: Ends::Each,
    pam: false,
};

/// Debian's `sshd_config` without its comments. `{pam}` is replaced by `yes` if both servers have PAM.
const DEBIANS: &str = "Include /etc/ssh/sshd_config.d/*.conf\nKbdInteractiveAuthentication no\nUsePAM {pam}\n\
    X11Forwarding yes\nPrintMotd no\nAcceptEnv LANG LC_*\nSubsystem\tsftp\t/usr/lib/openssh/sftp-server\n";

/// Number of attempts in which ours may differ from all observed results of OpenSSH.
const ATTEMPTS: usize = 3;

/// Beginnings of lines that only one side may have, in every recipe, and the reason.
const LEFT_OUT: &[(&str, &str)] = &[
    ("scp: failed to upload ", "OpenSSH says each failure again for every level of the tree above it"),
    ("scp: upload \"", "the same"),
    ("upload \"", "the same, in sftp"),
    ("Entering ", "sftp names each directory while it walks; ours moves many at once and shows one progress"),
    ("Retrieving ", "the same"),
];

/// Returns a transcript without the lines of [`LEFT_OUT`].
fn settled(text: &str) -> String {
    let keep = |line: &&str| !LEFT_OUT.iter().any(|(start, _)| line.starts_with(start));
    text.lines().filter(keep).map(|line| format!("{line}\n")).collect()
}

/// Programs of one end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Family {
    Stock,
    Ours,
}

impl Family {
    fn name(self) -> &'static str {
        match self {
            Self::Stock => "stock",
            Self::Ours => "ours",
        }
    }
}

impl Recipe {
    /// Runs the recipe in all its worlds. Fails on the first difference from OpenSSH's result that is not
    /// listed.
    #[track_caller]
    pub fn run(&self) {
        let Some((test, lab)) = self.begin() else { return };
        let (stock, log) = visit_unfrozen(&lab, Family::Stock, Family::Stock);
        for text in self.sees {
            assert!(stock.contains(text), "OpenSSH's transcript lacks {text:?}:\n{stock}\n--- server\n{log}");
        }
        let pairs: &[(Family, Family)] = match self.ends {
            Ends::Each => {
                &[(Family::Stock, Family::Ours), (Family::Ours, Family::Stock), (Family::Ours, Family::Ours)]
            }
            Ends::Server => &[(Family::Stock, Family::Ours)],
            Ends::Client => &[(Family::Ours, Family::Stock)],
        };
        let mut used = vec![false; self.differs.len()];
        let mut wrong = String::new();
        let mut stocks = vec![stock];
        for &(client, server) in pairs {
            if let Err(difference) = self.compare(&lab, &test, &mut stocks, (client, server), &mut used) {
                wrong.push_str(&difference);
            }
        }
        assert!(wrong.is_empty(), "differs from OpenSSH:\n{wrong}=== OpenSSH's\n{}", stocks[0]);
        for ((text, _, why), used) in self.differs.iter().zip(used) {
            assert!(used, "no longer differs, take it off the list: {text:?} ({why})");
        }
    }

    /// Runs the recipe with our programs alone. Returns the user's transcript and the server's log; reports
    /// it and returns `None` if the recipe cannot run here.
    #[track_caller]
    pub fn run_ours(&self) -> Option<(String, String)> {
        let (_, lab) = self.begin()?;
        Some(visit(&lab, Family::Ours, Family::Ours))
    }

    /// Runs the recipe where OpenSSH's programs stand under their own names, and returns like
    /// [`run_ours`](Self::run_ours). Our programs are in `/opt/longhaul`, as in every world.
    #[track_caller]
    pub fn run_beside(&self) -> Option<(String, String)> {
        let (_, lab) = self.begin()?;
        Some(visit_unfrozen(&lab, Family::Stock, Family::Stock))
    }

    /// Returns the test's name, and a lab with the recipe's files. Reports it and returns `None` if the
    /// recipe cannot run here.
    #[track_caller]
    fn begin(&self) -> Option<(String, Lab)> {
        let test = std::thread::current().name().unwrap_or("recipe").to_owned();
        if !worlds_allowed() {
            skip_unavailable(&test, "needs root, namespaces and overlayfs");
            return None;
        }
        peers(&test, ["ssh", "sshd", "unshare", "ip"])?;
        for tool in self.tools {
            peers(&test, [*tool])?;
        }
        for program in self.fetched {
            if !fetched_peers().join(program).is_file() {
                let why =
                    format!("{program} is not there (cargo xtask peers builds it where it can be fetched)");
                skip_unavailable(&test, &why);
                return None;
            }
        }
        let lab = Lab::new();
        let pam = has_pam(&lab);
        if self.pam && !pam {
            skip(&test, "lhsshd is built without PAM");
            return None;
        }
        self.prepare(&lab, pam);
        Some((test, lab))
    }

    /// Runs the recipe with these families' programs, client and server, and marks in `used` the listed
    /// differences that occurred. `stocks`: the observed transcripts of OpenSSH.
    ///
    /// When two programs race (a command ends while the client writes to it), the transcript varies with
    /// OpenSSH too. At a difference, OpenSSH runs again, then ours: our transcript must equal one of
    /// OpenSSH's. The differences are reported anyway.
    ///
    /// # Errors
    /// The last difference from OpenSSH's first transcript, with the server's log.
    fn compare(
        &self,
        lab: &Lab,
        test: &str,
        stocks: &mut Vec<String>,
        (client, server): (Family, Family),
        used: &mut [bool],
    ) -> Result<(), String> {
        let mut last = String::new();
        for _ in 0..ATTEMPTS {
            let (ours, log) = match server {
                Family::Stock => visit_unfrozen(lab, client, server),
                Family::Ours => visit(lab, client, server),
            };
            let mut differs = |stock: &String| self.difference(lab, stock, &ours, used);
            let Some(first) = differs(&stocks[0]) else { return Ok(()) };
            if stocks[1..].iter().any(|stock| differs(stock).is_none()) {
                return Ok(());
            }
            let (client_name, server_name) = (client.name(), server.name());
            last = format!("=== client {client_name}, server {server_name}\n{first}--- server log\n{log}\n");
            eprintln!("{test}: differed, once more\n{last}");
            let (stock, _) = visit_unfrozen(lab, Family::Stock, Family::Stock);
            let is_same = differs(&stock).is_none();
            stocks.push(stock);
            if is_same {
                return Ok(());
            }
        }
        Err(last)
    }

    /// Returns the output of `diff` for the two transcripts, without the listed differences; `None` if they
    /// are equal.
    fn difference(&self, lab: &Lab, stock: &str, ours: &str, used: &mut [bool]) -> Option<String> {
        let (mut stock, mut ours) = (stock.to_owned(), ours.to_owned());
        for (&(text, theirs, _), used) in self.differs.iter().zip(used) {
            if text.is_empty() {
                *used |= stock.matches(theirs).count() > ours.matches(theirs).count();
                stock = stock.replace(theirs, "");
                ours = ours.replace(theirs, "");
            } else {
                *used |= ours.contains(text);
                ours = ours.replace(text, theirs);
            }
        }
        let (stock, ours) = (settled(&stock), settled(&ours));
        (ours != stock).then(|| difference(lab, &stock, &ours))
    }

    /// Writes the files that every world reads.
    fn prepare(&self, lab: &Lab, pam: bool) {
        let at = self.server.lines().take_while(|line| !line.trim_start().starts_with("Match ")).count();
        let part = |lines: &mut dyn Iterator<Item = &str>| -> String {
            lines.map(|line| format!("{line}\n")).collect()
        };
        let first = part(&mut self.server.lines().take(at));
        let last = part(&mut self.server.lines().skip(at));
        let pam = if pam { "yes" } else { "no" };
        lab.write("sshd_config", &format!("{first}{}{last}", DEBIANS.replace("{pam}", pam)));
        lab.write("config", self.config);
        lab.write("setup", self.setup);
        lab.write("client", self.client);
        lab.write("look", self.look);
        lab.write("world.sh", include_str!("recipe/world.sh"));
        for file in ["setup", "client", "look", "config", "sshd_config"] {
            crate::open_to_all(&lab.path(file));
        }
    }
}

/// Like [`visit`], repeated if this process, and so probably all of them, was stopped meanwhile. Before a
/// login, the sandbox of Debian's `sshd` does not survive that (see
/// [`again_if_closed`](crate::again_if_closed)).
fn visit_unfrozen(lab: &Lab, client: Family, server: Family) -> (String, String) {
    for _ in 0..3 {
        let before = process::stops_of_this_process();
        let seen = visit(lab, client, server);
        if process::stops_of_this_process() == before {
            return seen;
        }
        eprintln!("the processes were stopped during the recipe; once more");
    }
    visit(lab, client, server)
}

/// Runs the recipe with these families' programs. Returns the user's transcript, and the server's log.
#[track_caller]
fn visit(lab: &Lab, client: Family, server: Family) -> (String, String) {
    let name = format!("{}-{}", client.name(), server.name());
    let directory = lab.path(&name);
    if directory.exists() {
        std::fs::remove_dir_all(&directory).unwrap();
    }
    std::fs::create_dir(&directory).unwrap();
    let (bins, fetched) = (bin_dir(), fetched_peers());
    let ran = lab.run(
        Path::new("unshare"),
        &[
            "--mount",
            "--net",
            "--pid",
            "--fork",
            "--uts",
            "--ipc",
            "--kill-child",
            "bash",
            &lab.arg("world.sh"),
            &lab.arg(""),
            &bins.to_string_lossy(),
            client.name(),
            server.name(),
            &fetched.to_string_lossy(),
        ],
    );
    let read = |file: &str| {
        let bytes = std::fs::read(directory.join(file)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let log = read("log");
    assert_eq!(ran.code, 0, "world {name}: {}{}\n--- server log\n{log}", ran.text(), ran.err);
    let mut seen = format!("exit {}\n", read("status").trim());
    for (title, file) in [("stdout", "out"), ("stderr", "err"), ("afterwards", "looked")] {
        let text = read(file).replace('\r', "");
        let _ = write!(seen, "[{title}]\n{text}");
    }
    (seen, log)
}

/// Returns the output of `diff` for two texts.
fn difference(lab: &Lab, stock: &str, ours: &str) -> String {
    lab.write("seen.stock", stock);
    lab.write("seen.ours", ours);
    lab.run(Path::new("diff"), &["-U2", "seen.stock", "seen.ours"]).text()
}

/// Returns whether this machine permits the tests to create worlds; tried once.
fn worlds_allowed() -> bool {
    static ALLOWED: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
    *ALLOWED.get_or_init(|| {
        let line = "mount --make-rprivate / && mount -t tmpfs none /mnt && mkdir /mnt/u /mnt/w /mnt/r && \
                    mount -t overlay none -o lowerdir=/,upperdir=/mnt/u,workdir=/mnt/w /mnt/r && mkdir /mnt/r/x";
        is_root()
            && std::process::Command::new("unshare")
                .args(["--mount", "--net", "--pid", "--fork", "--uts", "--ipc", "sh", "-c", line])
                .status()
                .is_ok_and(|status| status.success())
    })
}
