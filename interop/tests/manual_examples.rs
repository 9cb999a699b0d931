//! Runs the EXAMPLES of the manual pages as they are written. In a separate environment, the hosts, accounts
//! and files in the examples exist: all hosts (`data1`, `gateway`, …) are this machine, with `lhsshd` on port
//! 22.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use lh_interop::recipe::{RECIPE, Recipe};

#[path = "../../xtask/src/docs/programs/examples.rs"]
mod examples;

use examples::EXAMPLES;

/// How an example runs. Those that [`SPECIAL`] does not list run as they are, by `me`, to their end.
enum How {
    /// Commands in front of it and behind it, in shell, in the same shell as the example. `$example` is its
    /// text.
    With { before: &'static str, after: &'static str },
    /// Like [`Self::With`], as root.
    Root { before: &'static str, after: &'static str },
    /// Runs until this command succeeds, and is ended then. The commands in front of its last one run to
    /// their ends. By root if `root`.
    Until { root: bool, condition: &'static str },
    /// These commands, which have the example in `$example`.
    As(&'static str),
    /// Not run, for this reason.
    Not(&'static str),
}

use How::{As, Not, Root, Until, With};

/// Page, what the example is for, and how it runs.
const SPECIAL: &[(&str, &str, How)] = &[
    (
        "lhssh",
        "Forward a local port to a web server there, and be a SOCKS proxy, without a session:",
        Until { root: false, condition: "listening 8080 && listening 1080" },
    ),
    (
        "lhscp",
        "Be read by a program:",
        With { before: "", after: "[ \"$(eval \"$example\" | jq -r .outcome)\" = complete ]" },
    ),
    (
        "lhsftp",
        "Look around:",
        // The lines behind the prompts are typed.
        As(r#"
mkdir empty && cd empty && cp -r ../results /data
first=$(printf '%s\n' "$example" | head -1)
printf '%s\n' "$example" | sed -n 's/^sftp> //p' | $first
diff -r results ../results
"#),
    ),
    (
        "lhsftp",
        "A batch, as from cron:",
        With { before: "cp run.csv report.csv", after: "cmp run.csv /drop/report.csv" },
    ),
    (
        "lhsftp",
        "Continue an upload:",
        With {
            before: "rm -f /data/big.h5; head -c 1000000 big.h5 >/data/big.h5",
            after: "cmp big.h5 /data/big.h5",
        },
    ),
    (
        "lhsftp-server",
        "In another server's sshd_config:",
        Root {
            before: "mkdir -p /usr/local/sbin; cp /opt/longhaul/lhsftp-server /usr/local/sbin",
            after: r#"
serve 2301 "Port 2301
LonghaulSftp external
$example"
listening 2301
setpriv --reuid me --regid me --init-groups env HOME=/home/me lhsftp -b - -P 2301 data1 <<<'ls /drop'
"#,
        },
    ),
    (
        "lhsftp-server",
        "Read only, beginning in /pub; in lhsshd's configuration:",
        Root {
            before: "",
            after: r#"
serve 2302 "Port 2302
$example"
listening 2302
ask() { setpriv --reuid me --regid me --init-groups env HOME=/home/me lhsftp -b - -P 2302 data1; }
ask <<<'pwd' | grep -x 'Remote working directory: /pub'
! ask <<<'mkdir /tmp/no'
[ ! -e /tmp/no ]
"#,
        },
    ),
    (
        "lhsftp-server",
        "An upload-only drop box:",
        Root {
            before: "",
            after: r#"
serve 2303 "Port 2303
Subsystem sftp internal-sftp
$example"
listening 2303
ask() { setpriv --reuid me --regid me --init-groups env HOME=/home/me lhsftp -b - -P 2303 data1; }
ask <<<'put /etc/hostname box'
cmp /etc/hostname /drop/box
! ask <<<'get box /tmp/box'
! ask <<<'rm box'
[ -e /drop/box ]
"#,
        },
    ),
    (
        "lhsshd",
        "Check a configuration, and print what it means for one user:",
        Root { before: "cp /etc/ssh/sshd_config /etc/ssh/lhsshd_config", after: "" },
    ),
    (
        "lhsshd",
        "A server for oneself, in the foreground:",
        Until {
            root: false,
            condition: "listening 2222 && lhssh -p 2222 -o StrictHostKeyChecking=no -o UserKnownHostsFile=own localhost true",
        },
    ),
    ("lhsshd", "Show one connection in every detail:", Until { root: true, condition: "listening 2222" }),
    (
        "lhsshd",
        "A key that may run backups from one network only, in authorized_keys:",
        As(r#"
key=$(cut -d' ' -f1,2 ~/.ssh/id_ed25519.pub)
cp ~/.ssh/authorized_keys saved
printf '%s\n' "${example/ssh-ed25519 AAAA.../$key}" >~/.ssh/authorized_keys
! lhssh -o BatchMode=yes data1 true
sed -i 's,192\.0\.2\.0/24,127.0.0.0/8,' ~/.ssh/authorized_keys
cp -r results /data
rsync -a -e lhssh data1:results copied
diff -r results copied/results
! rsync -a -e lhssh results data1:other
cp saved ~/.ssh/authorized_keys
"#),
    ),
    (
        "lhssh-keygen",
        "Forget a host whose key has changed:",
        With {
            before: "cp ~/.ssh/known_hosts saved",
            after: "! lhssh-keygen -F data1; cp saved ~/.ssh/known_hosts",
        },
    ),
    (
        "lhssh-keygen",
        "Sign a certificate for a user, good for a day:",
        With { before: MAKE_KEYS, after: "lhssh-keygen -L -f id_lab-cert.pub | grep ada@lab" },
    ),
    (
        "lhssh-keygen",
        "Sign a certificate for a host:",
        With {
            before: MAKE_KEYS,
            after: "lhssh-keygen -L -f ssh_host_ed25519_key-cert.pub | grep data1.example.org",
        },
    ),
    (
        "lhssh-keygen",
        "Revoke a certificate:",
        With {
            before: "lhssh-keygen -q -s ca -I one -n ada id_lab.pub; lhssh-keygen -k -f revoked",
            after: "! lhssh-keygen -Q -f revoked id_lab-cert.pub",
        },
    ),
    (
        "lhssh-keygen",
        "Sign a file, and verify it:",
        With {
            before: "cp run.csv data.csv; echo \"ada@lab $(cut -d' ' -f1,2 id_lab.pub)\" >allowed_signers",
            after: "",
        },
    ),
    (
        "lhssh-agent",
        "For a shell and everything started from it:",
        With { before: "", after: "lhssh-add -l; lhssh-agent -k" },
    ),
    (
        "lhssh-agent",
        "On a socket of a fixed name, where keys are forgotten after eight hours:",
        With { before: "", after: "SSH_AUTH_SOCK=~/.ssh/agent.sock lhssh-add ~/.ssh/id_lab" },
    ),
    (
        "lhssh-add",
        "Add a key for eight hours, confirmed at each use:",
        With { before: "eval \"$(lhssh-agent)\"", after: "lhssh-add -l; lhssh-agent -k" },
    ),
    (
        "lhssh-add",
        "List, and remove all:",
        With {
            before: "eval \"$(lhssh-agent)\"; lhssh-add ~/.ssh/id_lab",
            after: "! lhssh-add -l; lhssh-agent -k",
        },
    ),
    (
        "lhssh-add",
        "A key that the forwarded agent uses for one host only, through a gateway:",
        With { before: "eval \"$(lhssh-agent)\"", after: "lhssh-add -l; lhssh-agent -k" },
    ),
    (
        "lhssh-keyscan",
        "Of a list of hosts, with hashed names:",
        With { before: "printf 'data1\\ndata2\\n' >hosts.txt", after: "" },
    ),
    (
        "longhaul",
        "Find out what limits a path:",
        Not("measures for half a minute: interop/tests/doctor runs it, with less"),
    ),
    (
        "longhaul",
        "Measure a path beside OpenSSH's client, and fail when it has become slower:",
        Not("measures for minutes: interop/tests/bench.rs runs both commands, with shorter rounds"),
    ),
    (
        "longhaul",
        "Prove that a copy is right, now or later:",
        With {
            before: "rm -rf /data/results",
            after: "echo x >>/data/results/run1.csv; ! longhaul verify results.manifest",
        },
    ),
    (
        "longhaul",
        "Resume what was cut off, and remove what nothing has worked on for a month:",
        // The number of the example is that of a transfer, which here is one that was cut off.
        As(r#"
rm -rf /data/big.h5
lhscp -q -l 2000 big.h5 data1:/data/ & copy=$!
eventually sh -c 'longhaul transfers | grep big.h5'
# A copy that has moved nothing leaves nothing to resume.
eventually sh -c 'find /data -name ".big.h5.*" -size +64k | grep .'
# Not INT, which the shell has jobs in the background ignore.
kill -TERM $copy
wait $copy || :
id=$(longhaul transfers | grep -o '^[0-9a-f]\{4\}' | head -1)
[ "$id" ]
eval "${example/3f2a/$id}"
cmp big.h5 /data/big.h5
"#),
    ),
    (
        "longhaul",
        "See which sessions wait for their clients, and end one:",
        As(r#"
lhssh data1 'touch /tmp/session; exec sleep 1000' & session=$!
eventually test -e /tmp/session
id=$(longhaul sessions | grep ' command .* connected' | grep -o '^[0-9a-f]\{4\}' | head -1)
[ "$id" ]
eval "${example/388a/$id}"
! wait $session
"#),
    ),
    (
        "longhaul",
        "Check another place, and report files that nothing has copied there:",
        With {
            before: "rm -rf /srv/data/results; lhscp -rq --manifest-out results.manifest results data1:/srv/data/",
            after: "",
        },
    ),
    (
        "lhssh-keysign",
        "Install it, as root:",
        Root {
            before: "mkdir -p target/release /usr/libexec; cp /opt/longhaul/lhssh-keysign target/release",
            after: "[ -u /usr/libexec/lhssh-keysign ]",
        },
    ),
    ("lhssh-sk-helper", "Make a key in hardware:", Not("needs a security key, and a person who touches it")),
    (
        "lhssh-pkcs11-helper",
        "List the keys of a smart card:",
        Not("needs a smart card; interop/tests/tokens.rs does it with a token in software"),
    ),
];

/// Keys that the examples of certificates sign with and for.
const MAKE_KEYS: &str = "for k in ca host_ca ssh_host_ed25519_key id_lab; do \
    [ -e $k ] || lhssh-keygen -q -t ed25519 -N '' -f $k; done";

/// The machine: hosts by name, an account `ada` beside `me`, directories that both may write.
const SETUP: &str = r#"
export PATH=/opt/longhaul:$PATH
echo '127.0.0.4 data1 data2 gateway inside one two backup1' >>/etc/hosts
account ada 2003
cp /world/authorized_keys /home/me/.ssh/authorized_keys
for kind in ed25519 rsa ecdsa; do
    echo "data1,data2,gateway,inside,one,two,backup1,127.0.0.4 $(cat /world/host_$kind.pub)"
done >>/home/me/.ssh/known_hosts
chown me:me /home/me/.ssh/authorized_keys
mkdir -p /data /drop /pub /srv/data /home/me/backup /home/me/work
chmod 777 /data /drop /pub /srv/data
chmod 755 /srv
cd /home/me/work
mkdir -p results/raw results/cache tree
printf 'a,b\n1,2\n' >results/run1.csv
echo x >results/x.tmp
echo x >results/cache/x
head -c 100000 /dev/urandom >results/raw/a.bin
head -c 3000000 /dev/urandom >big.h5
echo c >run.csv
echo t >tree/t
ln -s t tree/link
echo run1.csv >list.txt
cd /
chown -R me:me /home/me
"#;

/// Shell text in single quotes.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// A script that runs an example in a shell of its own and reports its status behind `RAN`.
fn script(page: &str, what: &str, example: &str, how: Option<&How>) -> String {
    let body = match how {
        None => "eval \"$example\"".to_owned(),
        Some(With { before, after } | Root { before, after }) => {
            // Lines of a configuration are for `after`.
            let is_line = ["Subsystem", "ForceCommand"].iter().any(|word| example.starts_with(word));
            let run = if is_line { "" } else { "eval \"$example\"" };
            format!("{before}\n{run}\n{after}")
        }
        Some(Until { condition, .. }) => {
            // A backslash at its end continues a line.
            let mut lines: Vec<&str> = example.lines().collect();
            let mut last = lines.pop().unwrap_or_default().to_owned();
            while lines.last().is_some_and(|line| line.ends_with('\\')) {
                last = format!("{}\n{last}", lines.pop().unwrap_or_default());
            }
            format!(
                "{}\n{last} & running=$!\n{condition}\nkill $running\nwait $running || :",
                lines.join("\n")
            )
        }
        Some(As(commands)) => (*commands).to_owned(),
        Some(Not(_)) => unreachable!("is not run"),
    };
    let name = quoted(&format!("{page}: {what}"));
    format!(
        "example={}\n( set -e; trap 'kill $running 2>/dev/null || :' EXIT; {body}\n) </dev/null >ran 2>&1 & wait $!; status=$?\n\
         printf 'RAN %s %s\\n' $status {name}\n[ $status = 0 ] || cat ran\n",
        quoted(example)
    )
}

#[test]
fn examples_of_the_manual_pages_run() {
    let mut unused: BTreeSet<_> = SPECIAL.iter().map(|(page, what, _)| (*page, *what)).collect();
    let (mut client, mut root, mut wanted) = (String::new(), String::new(), 0);
    for &(page, examples) in EXAMPLES {
        for &(what, example) in examples {
            unused.remove(&(page, what));
            let how = SPECIAL.iter().find(|row| (row.0, row.1) == (page, what)).map(|row| &row.2);
            if let Some(Not(why)) = how {
                eprintln!("not run: {page}: {what} ({why})");
                continue;
            }
            wanted += 1;
            let as_root = matches!(how, Some(Root { .. } | Until { root: true, .. }));
            let out = if as_root { &mut root } else { &mut client };
            let _ = write!(out, "{}", script(page, what, example, how));
        }
    }
    assert!(unused.is_empty(), "no longer on a page: {unused:?}");
    let leak = |text: String| -> &'static str { Box::leak(text.into_boxed_str()) };
    let listening = "listening() { eventually grep -qi \"$(printf :%04X $1) [0-9A-F:]* 0A\" /proc/net/tcp /proc/net/tcp6; }";
    let recipe = Recipe {
        tools: &["jq", "rsync", "rrsync", "setpriv"],
        setup: SETUP,
        client: leak(format!("export PATH=/opt/longhaul:$PATH\n{listening}\ncd work\n{client}")),
        look: leak(format!("cd /root\n{root}")),
        ..RECIPE
    };
    let Some((seen, log)) = recipe.run_ours() else { return };
    let ran = seen.lines().filter(|line| line.starts_with("RAN ")).count();
    let failed: Vec<&str> =
        seen.lines().filter(|line| line.starts_with("RAN ") && !line.starts_with("RAN 0 ")).collect();
    assert!(
        failed.is_empty() && ran == wanted,
        "{ran} of {wanted} ran, failed: {failed:#?}\n{seen}\n--- server\n{log}"
    );
}
