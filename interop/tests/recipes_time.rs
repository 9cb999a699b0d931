//! Recipes for time: clocks that are stepped or wrong, machines that have just started, stopped processes and
//! suspended machines.

use std::fs;
use std::io::{BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use lh_interop::recipe::{Ends, RECIPE, Recipe};
use lh_interop::{Lab, Lhsshd, eventually, our, peers, skip};

/// For `setup`: a process of root that stops the programs of `client`, `server` or `both` while the user
/// waits. `freeze WHO TIMES STOP RUN` asks it to, in seconds; it returns when they all run again.
const FREEZER: &str = r#"
cat >/usr/local/bin/freeze <<'E'
#!/bin/sh
echo "$@" >/tmp/freeze.new && mv /tmp/freeze.new /tmp/freeze
while [ -e /tmp/freeze ]; do sleep 0.05; done
E
chmod 755 /usr/local/bin/freeze
processes() {
    case $1 in
        client) names='(lh)?(ssh|scp|sftp)' ;;
        server) names='(lh)?(sshd|sftp-server)' ;;
        both) names='(lh)?(ssh|scp|sftp|sshd|sftp-server)' ;;
    esac
    find /proc -maxdepth 2 -name exe -printf '%h %l\n' 2>/dev/null | sed -nE "s,^/proc/([0-9]+) .*/$names\$,\1,p"
}
freezer() {
    while sleep 0.05; do
        if [ ! -e /tmp/freeze ]; then continue; fi
        read who times stop run </tmp/freeze
        for ((n = 0; n < times; n++)); do
            stopped=$(processes $who)
            kill -STOP $stopped || true; sleep $stop; kill -CONT $stopped || true; sleep $run
        done 2>/dev/null
        rm /tmp/freeze
    done
}
freezer </dev/null >/dev/null 2>&1 &
"#;

/// A shell, an upload and a download through a forward while one end or both stand still for moments, twenty
/// times. They are logged in before: OpenSSH's server now and then drops a login during which it is stopped.
#[test]
fn sessions_while_processes_stand_still() {
    Recipe {
        tools: &["python3"],
        setup: FREEZER,
        config: "Host *\n  User bob\n",
        client: r#"
ssh -f -N -L 7250:localhost:22 server
head -c 10000000 /dev/urandom >f
for who in client server both; do echo "== $who"; { for i in {1..80}; do echo $i; sleep 0.05; done | ssh server 'touch /tmp/up1; cat; exit 3' | md5sum; echo ${PIPESTATUS[1]}; } >o1 2>&1 & scp -q -l 16000 f server:up >o2 2>&1; echo $? >>o2 &
ssh -p 7250 -o HostKeyAlias=server localhost 'touch /tmp/up2; seq 200000; sleep 2; seq 9' | md5sum >o3 & until [ -e /tmp/up1 -a -e /tmp/up2 ] && ls -A /home/bob | grep -q up; do sleep 0.05; done; freeze $who 20 0.15 0.05; wait; cat o1 o3; ssh server md5sum <f | cmp - <(md5sum <f) && ssh server cmp up - <f; echo $?; ssh server rm up /tmp/up1 /tmp/up2; done
pkill -u me -f 7250:localhost
"#,
        sees: &["== both\nd19fc1d701d1cb6ce4ecff1db839a05e  -\n3\n"],
        ..RECIPE
    }
    .run();
}

/// A machine that sleeps for longer than keepalives wait: both ends wake at the same time, and the session
/// goes on.
#[test]
fn sessions_outlive_a_machine_that_sleeps() {
    Recipe {
        server: "ClientAliveInterval 2\nClientAliveCountMax 2",
        setup: FREEZER,
        config: "Host *\n  User bob\n  ServerAliveInterval 2\n  ServerAliveCountMax 2\n",
        client: r#"
(eventually test -e /tmp/in; freeze both 1 6 0) &
ssh server 'touch /tmp/in; sleep 5; echo through; exit 5'; echo $?
wait
ssh -f -N -L 7200:localhost:22 server
freeze both 1 6 0
ssh -p 7200 -o HostKeyAlias=server localhost id -un; echo $?
pkill -u me -f 7200:localhost
"#,
        sees: &["through\n5\nbob\n0\n"],
        ..RECIPE
    }
    .run();
}

/// The client's clock is set forward and back by days while sessions, copies and shared connections are open.
#[test]
fn client_clock_is_stepped() {
    Recipe {
        tools: &["faketime"],
        config: "Host *\n  User bob\n",
        client: r#"
lib=$(echo /usr/lib/*/faketime/libfaketimeMT.so.1)
fake() {
    env LD_PRELOAD=$lib FAKETIME_TIMESTAMP_FILE=$HOME/now FAKETIME_NO_CACHE=1 FAKETIME_DONT_FAKE_MONOTONIC=1 "$@"
}
step() { echo "$1" >now.new; mv now.new now; }
step +0
fake date +%Y >y
step +900d
fake date +%Y | cmp -s - y; echo $?
step +0
fake ssh -o ServerAliveInterval=1 -o RekeyLimit='default 1h' server 'for i in 1 2 3 4 5 6 7 8 9; do echo $i; sleep 0.3; done; cat; exit 4' <<<in &
p=$!
sleep 0.5
for s in +1d -1d +900d -900d +3650d +0; do step $s; sleep 0.4; done
wait $p; echo $?
head -c 3000000 /dev/urandom >f
fake scp -q -l 16000 f server: &
p=$!
for s in -400d +400d +0; do sleep 0.3; step $s; done
wait $p; echo $?
ssh server cmp f - <f; echo $?
fake ssh -M -S c -o ControlPersist=60 -f -N server
for s in +30d -30d; do
    step $s
    sleep 0.3
    ssh -S c server id -un
    ssh -S c -O check server 2>&1 | cut -c1-14
done
ssh -q -S c -O exit server
"#,
        sees: &["1\n1\n2\n3\n", "in\n4\n0\n0\nbob\nMaster running\nbob\nMaster running\n"],
        ends: Ends::Client,
        ..RECIPE
    }
    .run();
}

/// The server's clock is set forward and back by days and years: sessions, connections that have not logged
/// in yet and penalties of addresses go on, because every deadline counts on the monotonic clock. Only ours:
/// the sandbox of Debian's `sshd` does not permit a preloaded library.
///
/// Covers: sshd_config LoginGraceTime; sshd_config ClientAliveInterval; sshd_config PerSourcePenalties (a clock that is stepped)
#[test]
fn server_clock_is_stepped() {
    let Some([faketime]) = peers("server_clock", ["faketime"]) else { return };
    let places = fs::read_dir("/usr/lib").unwrap().flatten();
    let place = |entry: fs::DirEntry| entry.path().join("faketime/libfaketimeMT.so.1");
    let Some(library) = places.map(place).find(|path: &PathBuf| path.exists()) else {
        return skip("server_clock", &format!("no library of {}", faketime.display()));
    };
    let lab = Lab::new();
    let step = |by: &str| {
        lab.write("now.new", by);
        fs::rename(lab.path("now.new"), lab.path("now")).unwrap();
    };
    step("+0");
    let server = Lhsshd::start_with(
        &lab,
        &format!(
            "LoginGraceTime 600\nClientAliveInterval 600\nClientAliveCountMax 1\nTransferLog {}\n\
             PerSourcePenalties authfail:3600s min:1s\n",
            lab.arg("transfers")
        ),
        &[
            ("LD_PRELOAD", library.to_str().unwrap()),
            ("FAKETIME_TIMESTAMP_FILE", &lab.arg("now")),
            ("FAKETIME_NO_CACHE", "1"),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
        ],
    );
    let words = |more: &[&str]| {
        let mut all = lab.client_options();
        all.extend(["-p".to_owned(), server.port_arg()]);
        all.extend(more.iter().map(|word| (*word).to_owned()));
        all
    };
    let mut session = Command::new(our("lhssh"))
        .args(words(&["127.0.0.1", "echo up; read x; echo \"got $x\"; exit 4"]))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(session.stdout.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    assert_eq!(line, "up\n");
    let mut waiting = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
    let mut banner = [0; 8];
    waiting.read_exact(&mut banner).unwrap();
    // An address that has offered an unknown key.
    lab.run(&our("lhssh-keygen"), &["-q", "-t", "ed25519", "-N", "", "-f", &lab.arg("unknown")]).ok("a key");
    let guest =
        |key: &str| lab.run(&our("lhssh"), &words(&["-b", "127.0.0.9", "-i", key, "127.0.0.1", "true"])).code;
    let mut other = words(&["-b", "127.0.0.9", "127.0.0.1", "true"]);
    for word in &mut other {
        *word = word.replace(&lab.arg("user_ed25519"), &lab.arg("unknown"));
    }
    assert_eq!(lab.run(&our("lhssh"), &other).code, 255, "{}", server.log());
    for (at, by) in ["+10d", "-10d", "+3650d", "-3650d", "+0"].into_iter().enumerate() {
        step(by);
        lab.run(&our("lhssh"), &words(&["127.0.0.1", "true"])).ok(by);
        // The record may come after its client's end, and gets the time at which it is written.
        eventually("the connection is in the log", || {
            let text = fs::read_to_string(lab.path("transfers")).unwrap_or_default();
            text.matches("method=publickey").count() > at
        });
        assert_eq!(guest(&lab.arg("user_ed25519")), 255, "no penalty any more at {by}: {}", server.log());
    }
    waiting.write_all(b"SSH-2.0-test\r\n").unwrap();
    waiting.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    let ended = loop {
        match waiting.read(&mut [0; 4096]) {
            Ok(0) => break None,
            Ok(_) => {}
            Err(error) => break Some(error.kind()),
        }
    };
    assert_eq!(ended, Some(ErrorKind::WouldBlock), "closed before its time: {}", server.log());
    session.stdin.take().unwrap().write_all(b"in\n").unwrap();
    line.clear();
    said.read_to_string(&mut line).unwrap();
    assert_eq!((line.as_str(), session.wait().unwrap().code()), ("got in\n", Some(4)));
    // The steps did reach the server: its log of transfers has a time in each of these decades.
    let text = lab.read("transfers");
    let mut years: Vec<&str> = text.lines().filter_map(|line| line.get(..4)).collect();
    years.sort_unstable();
    years.dedup();
    assert!(years.len() >= 3, "{text}");
}

/// A client whose clock is wrong by years: host certificates have expired or are not valid yet, all else
/// works.
#[test]
fn client_clock_is_wrong_by_years() {
    Recipe {
        tools: &["faketime"],
        server: "HostCertificate /etc/ssh/host-cert.pub",
        setup: r#"
ssh-keygen -q -t ed25519 -N '' -f /etc/ssh/hostca
cp /etc/ssh/ssh_host_ed25519_key.pub /etc/ssh/host.pub
ssh-keygen -q -s /etc/ssh/hostca -h -I h -n server -V -1d:+1d /etc/ssh/host.pub
echo "@cert-authority server $(cat /etc/ssh/hostca.pub)" >/home/me/.ssh/ca
echo 1 >/home/bob/f
"#,
        config: "Host server\n  User bob\n  BatchMode yes\n  UserKnownHostsFile ~/.ssh/ca\n",
        client: r#"
lib=$(echo /usr/lib/*/faketime/libfaketimeMT.so.1)
for s in +0 -3650d +3650d; do
    echo "== $s"
    LD_PRELOAD=$lib FAKETIME="$s" ssh server id -un 2>&1 | sed 's/SHA256.*/SHA/'
    LD_PRELOAD=$lib FAKETIME="$s" ssh -o UserKnownHostsFile=~/.ssh/known_hosts server id -un
    LD_PRELOAD=$lib FAKETIME="$s" scp -o UserKnownHostsFile=~/.ssh/known_hosts -pq server:f f
    echo $?
done
"#,
        sees: &["== +0\nbob\nbob\n0\n", "ertificate invalid: not yet valid", "ertificate invalid: expired"],
        ends: Ends::Client,
        ..RECIPE
    }
    .run();
}

/// Machines that have just started, and machines that run for decades: monotonic clocks near zero and far
/// from it.
#[test]
fn uptime_of_seconds_and_of_decades() {
    Recipe {
        setup: r#"
up=$(cut -d. -f1 /proc/uptime)
mono=$(awk '/^now at/ {print int($3 / 1e9); exit}' /proc/timer_list 2>/dev/null || true)
mono=${mono:-$up}
if [ $mono -gt $up ]; then mono=$up; fi
started=yes
unshare --time --fork --boottime -$((mono - 1)) --monotonic -$((mono - 1)) /usr/sbin/sshd -E /var/log/sshd.log
listening 22
unshare --time --fork --boottime 2000000000 --monotonic 2000000000 /usr/sbin/sshd -E /var/log/sshd-old.log -o PidFile=/run/old.pid -p 2222
listening 2222
echo $((mono - 1)) >/home/me/up
chmod u+s $(command -v unshare)
"#,
        config: "Host *\n  User bob\n  ServerAliveInterval 1\n",
        client: r#"
n=$(cat up)
for p in 22 2222; do
    for o in 0 -$n 2000000000; do
        run() {
            unshare --time --fork --boottime $o --monotonic $o setpriv --reuid 2001 --regid 2001 --clear-groups "$@"
        }
        head -c 300000 /dev/urandom >f
        run ssh -p $p server 'sleep 1.2; echo $USER; cat; exit 3' <<<in; echo $?
        run scp -q -P $p f server:; echo $?
        run scp -q -P $p server:f g
        cmp f g; echo $?
    done
done
"#,
        sees: &["bob\nin\n3\n0\n0\nbob\nin\n3\n0\n0\nbob\nin\n3\n0\n0\nbob\n"],
        ..RECIPE
    }
    .run();
}
