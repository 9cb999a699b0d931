//! Users and resources of a connection's three processes (privilege separation), as other processes see them.

use std::fs;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use lh_interop::{Lab, Lhsshd, is_root, me, peers, skip};

/// Waits until `find` returns a value; a bound against hanging, not an expectation.
#[track_caller]
fn eventually<T>(what: &str, mut find: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + Duration::from_secs(180);
    loop {
        if let Some(found) = find() {
            return found;
        }
        assert!(Instant::now() < end, "never came true: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn status(pid: u32, field: &str) -> Option<String> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':').map(str::trim))?;
    Some(line.to_owned())
}

fn children(pid: u32) -> Vec<u32> {
    let all = fs::read_dir("/proc").unwrap().flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|&each: &u32| status(each, "PPid") == Some(pid.to_string())).collect()
}

/// Returns the monitor, the pre-auth process and the user session process of the server's only connection.
fn processes(server: &Lhsshd) -> (u32, u32, u32) {
    eventually("three processes", || {
        let [monitor] = children(server.pid())[..] else { return None };
        let (confined, free): (Vec<u32>, Vec<u32>) =
            children(monitor).into_iter().partition(|&pid| status(pid, "Seccomp").as_deref() == Some("2"));
        match (&confined[..], &free[..]) {
            (&[preauth], &[user]) => Some((monitor, preauth, user)),
            _ => None,
        }
    })
}

#[test]
fn unauthenticated_clients_reach_an_unprivileged_process() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "");
    let unauthenticated = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
    let (monitor, preauth, user) = processes(&server);
    assert_eq!(status(preauth, "NoNewPrivs").unwrap(), "1");
    let limits = fs::read_to_string(format!("/proc/{preauth}/limits")).unwrap();
    for limit in ["Max processes", "Max file size"] {
        let line = limits.lines().find(|line| line.starts_with(limit)).unwrap();
        assert_eq!(line.split_whitespace().nth(3), Some("0"), "{line}");
    }
    // The limit is its size at start plus 32 MiB.
    let line = limits.lines().find(|line| line.starts_with("Max data size")).unwrap();
    let most: u64 = line.split_whitespace().nth(3).unwrap().parse().expect("a number");
    let kib: u64 = status(preauth, "VmData").unwrap().split_whitespace().next().unwrap().parse().unwrap();
    assert!(most >= 32 << 20 && most <= (kib << 10) + (32 << 20), "{line}, {kib} KiB in use");
    if is_root() {
        let ids = status(preauth, "Uid").unwrap();
        assert!(ids.split_whitespace().all(|id| id != "0"), "{ids}");
        assert_eq!(status(preauth, "Groups").unwrap(), "");
        for set in ["CapEff", "CapPrm", "CapInh", "CapAmb"] {
            assert_eq!(u64::from_str_radix(&status(preauth, set).unwrap(), 16), Ok(0), "{set}");
        }
        let root = fs::read_link(format!("/proc/{preauth}/root")).unwrap();
        assert_ne!(root, Path::new("/"));
        assert_eq!(fs::read_dir(root).unwrap().count(), 0);
        // It has sockets, and null devices as standard descriptors.
        for fd in fs::read_dir(format!("/proc/{preauth}/fd")).unwrap().flatten() {
            let target = fs::read_link(fd.path()).unwrap().display().to_string();
            assert!(target == "/dev/null" || target.starts_with("socket:"), "{target}");
        }
    }
    // If it is killed the whole connection ends, and one line reports it.
    Command::new("kill").args(["-SYS", &preauth.to_string()]).status().unwrap();
    let line = format!("pre-authentication process {preauth} of 127.0.0.1 port");
    eventually("log line", || server.log().contains(&line).then_some(()));
    assert!(server.log().contains("was killed: forbidden system call"));
    for pid in [monitor, user] {
        eventually("the others end", || status(pid, "PPid").is_none().then_some(()));
    }
    let mut rest = Vec::new();
    let _ = (&unauthenticated).read_to_end(&mut rest);
}

/// Returns whether the memory of a process contains one of these byte strings.
fn memory_holds(pid: u32, needles: &[&[u8]]) -> bool {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let mut memory = fs::File::open(format!("/proc/{pid}/mem")).unwrap();
    for map in
        maps.lines().filter(|line| line.split(' ').nth(1).is_some_and(|rights| rights.starts_with("rw")))
    {
        let (from, to) = map.split(' ').next().unwrap().split_once('-').unwrap();
        let from = u64::from_str_radix(from, 16).unwrap();
        let mut bytes = vec![0; usize::try_from(u64::from_str_radix(to, 16).unwrap() - from).unwrap()];
        memory.seek(SeekFrom::Start(from)).unwrap();
        if memory.read_exact(&mut bytes).is_err() {
            continue;
        }
        let held = |needle: &&[u8]| bytes.windows(needle.len()).any(|window| window == *needle);
        if needles.iter().any(held) {
            return true;
        }
    }
    false
}

fn base64(text: &str) -> Vec<u8> {
    const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (mut bytes, mut bits, mut count) = (Vec::new(), 0_u32, 0);
    for byte in text.bytes() {
        let Some(value) = ALPHABET.iter().position(|&each| each == byte) else { continue };
        bits = bits << 6 | u32::try_from(value).unwrap();
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count & 0xff) as u8);
        }
    }
    bytes
}

/// Returns the 32 secret bytes of an Ed25519 key file, which precede the second copy of the public key.
fn seed(file: &str) -> Vec<u8> {
    let body: String = file.lines().filter(|line| !line.starts_with('-')).collect();
    let bytes = base64(&body);
    let name = b"ssh-ed25519\0\0\0\x20";
    let at = bytes.windows(name.len()).position(|window| window == name).unwrap() + name.len();
    let public = &bytes[at..at + 32];
    let last = bytes.windows(32).rposition(|window| window == public).unwrap();
    bytes[last - 32..last].to_vec()
}

#[test]
fn host_keys_are_in_the_monitor_s_memory_alone() {
    if !is_root() {
        return skip("host_keys_in_memory", "needs root to look into other processes");
    }
    let Some([ssh]) = peers("host_keys_in_memory", ["ssh"]) else { return };
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "HostKeyAlgorithms ssh-ed25519");
    let file = lab.read("host_ed25519");
    let seed = seed(&file);
    // A base64 line from the file's private half.
    let line = file.lines().nth(3).unwrap().as_bytes();
    let needles: [&[u8]; 2] = [&seed, line];

    let unauthenticated = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
    let (monitor, preauth, user) = processes(&server);
    assert!(!memory_holds(preauth, &needles) && !memory_holds(user, &needles));
    // Proves that the search works.
    eventually("the monitor has the keys", || memory_holds(monitor, &needles).then_some(()));
    drop(unauthenticated);
    eventually("the unauthenticated client's processes end", || {
        children(server.pid()).is_empty().then_some(())
    });

    let mut args = lab.client_options();
    args.extend(["-p".into(), server.port_arg(), format!("{}@127.0.0.1", me()), "echo up; cat".into()]);
    let mut client = Command::new(ssh)
        .args(args)
        .env("HOME", lab.path("home"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    client.stdout.as_mut().unwrap().read_exact(&mut [0; 3]).unwrap();
    let [monitor] = children(server.pid())[..] else { panic!("one session") };
    let [user] = children(monitor)[..] else { panic!("the pre-auth process is gone after the login") };
    assert!(memory_holds(monitor, &needles));
    assert!(!memory_holds(user, &needles));
    drop(client.stdin.take());
    assert!(client.wait().unwrap().success());
}
