//! The server's transfer log of connections and transfers, and its Prometheus counters.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::Command;

use lh_interop::{
    Lab, Lhsshd, ServerSetup, TestUser, eventually, find, is_root, json_lines, make_blob, me, our, peers,
    skip, uninterrupted,
};
use serde_json::Value;

const SIZE: u64 = 5 << 20;

/// Returns the records of a JSON log.
fn records(lab: &Lab, name: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(lab.path(name)).unwrap_or_default();
    json_lines(&text)
}

/// Waits until an event has `count` records, and returns them.
#[track_caller]
fn wait_for(lab: &Lab, name: &str, event: &str, count: usize) -> Vec<Value> {
    let of = |all: Vec<Value>| -> Vec<Value> {
        all.into_iter().filter(|record| record["event"] == event).collect()
    };
    eventually(&format!("{count} of {event}"), || of(records(lab, name)).len() >= count);
    of(records(lab, name))
}

fn number(record: &Value, key: &str) -> u64 {
    record[key].as_u64().unwrap_or_else(|| panic!("no {key} in {record}"))
}

/// Covers: sshd_config TransferLog; sshd_config TransferLogFormat
#[test]
fn transfer_log_has_a_record_per_transfer() {
    let Some(setup) = ServerSetup::new(
        "transfer_log_has_a_record_per_transfer",
        "TransferLog {lab}/log\nTransferLogFormat json",
    ) else {
        return;
    };
    let lab = &setup.lab;
    make_blob(&lab.path("blob"), SIZE as usize);
    let (blob, up) = (lab.arg("blob"), lab.arg("up file"));
    setup
        .sftp(&format!(
            "put \"{blob}\" \"{up}\"\nget \"{up}\" {}\n-put \"{blob}\" /nonexistent/file\n",
            lab.arg("down")
        ))
        .ok("sftp");
    let connections = wait_for(lab, "log", "connection", 1);
    let [connection] = &connections[..] else { panic!("{connections:?}") };
    let fingerprint = lab.run(&setup.keygen, &["-lf", &lab.arg("user_ed25519.pub")]).ok("ssh-keygen").text();
    let fingerprint = fingerprint.split(' ').nth(1).expect("a fingerprint");
    for (key, value) in [
        ("user", me().as_str()),
        ("remote", "127.0.0.1"),
        ("local", "127.0.0.1"),
        ("method", "publickey"),
        ("key", fingerprint),
        ("compression", "none"),
        ("outcome", "disconnected by client"),
    ] {
        assert_eq!(connection[key], value, "{key} in {connection}");
    }
    assert_eq!(number(connection, "local_port"), u64::from(setup.server.port));
    assert!(number(connection, "port") > 0);
    assert!(connection["client"].as_str().is_some_and(|client| client.starts_with("SSH-2.0-OpenSSH")));
    for key in ["kex", "cipher", "mac", "time"] {
        assert!(connection[key].as_str().is_some_and(|text| text.len() > 3), "{key} in {connection}");
    }
    for direction in ["in", "out"] {
        assert!(number(connection, &format!("bytes_{direction}")) > SIZE);
        let (average, peak) = (
            number(connection, &format!("average_{direction}")),
            number(connection, &format!("peak_{direction}")),
        );
        assert!(average > 0 && peak >= average, "{connection}");
    }
    assert!(connection["duration"].as_f64().is_some_and(|seconds| seconds > 0.0));

    let files: Vec<Value> =
        records(lab, "log").into_iter().filter(|record| record["event"] == "file").collect();
    let [put, get, refused] = &files[..] else { panic!("{files:?}") };
    for (record, direction) in [(put, "upload"), (get, "download")] {
        assert_eq!(
            (&record["path"], &record["direction"]),
            (&up.clone().into(), &direction.into()),
            "{record}"
        );
        assert_eq!(
            (number(record, "bytes"), record["outcome"].as_str()),
            (SIZE, Some("complete")),
            "{record}"
        );
        assert_eq!((&record["user"], &record["protocol"]), (&me().into(), &"sftp".into()));
        assert_eq!((&record["pid"], &record["port"]), (&connection["pid"], &connection["port"]));
    }
    assert_eq!((&refused["outcome"], &refused["reason"]), (&"failed".into(), &"No such file".into()));
    assert_eq!(number(connection, "files"), 3);

    // Data through a pipe count as a transfer, and so do copies by scp's old protocol.
    setup.ssh(&[], &["head -c 1000000 /dev/zero; exit 3"]);
    let commands = wait_for(lab, "log", "command", 1);
    assert_eq!(commands[0]["command"], "head -c 1000000 /dev/zero; exit 3");
    assert_eq!((number(&commands[0], "bytes_out"), number(&commands[0], "bytes_in")), (1_000_000, 0));
    assert_eq!(
        (&commands[0]["outcome"], &commands[0]["reason"]),
        (&"failed".into(), &"exit status 3".into())
    );
    let scp = find("scp").expect("OpenSSH's scp is beside its ssh");
    let mut args = vec!["-O".to_owned()];
    args.extend(lab.client_options());
    args.extend([
        "-P".into(),
        setup.server.port_arg(),
        blob,
        format!("{}@127.0.0.1:{}", me(), lab.arg("legacy")),
    ]);
    lab.run(&scp, &args).ok("scp -O");
    let commands = wait_for(lab, "log", "command", 2);
    assert_eq!((&commands[1]["protocol"], &commands[1]["direction"]), (&"scp".into(), &"upload".into()));
    assert_eq!(commands[1]["path"], lab.arg("legacy"));
    assert!(number(&commands[1], "bytes_in") > SIZE);
    assert_eq!(wait_for(lab, "log", "connection", 3).len(), 3);
    use std::os::unix::fs::MetadataExt as _;
    assert_eq!(std::fs::metadata(lab.path("log")).unwrap().mode() & 0o777, 0o600);
}

/// Covers: sshd_config TransferLog (files of our own scp in the old protocol); lhscp -t; lhscp -f
#[test]
fn transfer_log_records_files_of_the_old_protocol() {
    let Some(setup) = ServerSetup::new(
        "transfer_log_records_files_of_the_old_protocol",
        "TransferLog {lab}/log\nTransferLogFormat json\nSetEnv PATH={lab}/bin:/usr/bin:/bin",
    ) else {
        return;
    };
    let lab = &setup.lab;
    std::fs::create_dir(lab.path("bin")).unwrap();
    std::os::unix::fs::symlink(our("lhscp"), lab.path("bin/scp")).unwrap();
    let tree = lab.path("tree");
    std::fs::create_dir_all(tree.join("in")).unwrap();
    std::fs::write(tree.join("one"), vec![b'1'; 100_000]).unwrap();
    std::fs::write(tree.join("in/two\n"), b"").unwrap();
    std::fs::write(tree.join("in/three"), b"3").unwrap();
    let scp = find("scp").expect("OpenSSH's scp is beside its ssh");
    let there = |path: &str| format!("{}@127.0.0.1:{path}", me());
    let run = |from: String, to: String| {
        let mut args = vec!["-O".to_owned(), "-r".to_owned()];
        args.extend(lab.client_options());
        args.extend(["-P".into(), setup.server.port_arg(), from, to]);
        lab.run(&scp, &args)
    };
    let name = |record: &Value| record["path"].as_str().unwrap_or_default().to_owned();
    let up = lab.arg("up");
    run(lab.arg("tree"), there(&up)).ok("scp -O");
    let mut files = wait_for(lab, "log", "file", 3);
    files.sort_by_key(name);
    // A newline in a name is sent as two more characters, and must not break the log's line.
    let names: Vec<String> = files.iter().map(name).collect();
    assert_eq!((&names[0], &names[2]), (&format!("{up}/in/three"), &format!("{up}/one")), "{names:?}");
    assert!(names[1].starts_with(&format!("{up}/in/two")), "{names:?}");
    for (record, size) in files.iter().zip([1, 0, 100_000]) {
        assert_eq!((number(record, "bytes"), &record["outcome"]), (size, &"complete".into()), "{record}");
        assert_eq!((&record["protocol"], &record["direction"]), (&"scp".into(), &"upload".into()));
    }
    run(there(&lab.arg("tree/one")), lab.arg("down")).ok("scp -O");
    let files = wait_for(lab, "log", "file", 4);
    assert_eq!((name(&files[3]), number(&files[3], "bytes")), (lab.arg("tree/one"), 100_000));
    assert_eq!(files[3]["direction"], "download");
    // A failed copy has a record too.
    assert_ne!(run(there(&lab.arg("missing")), lab.arg("down")).code, 0);
    let files = wait_for(lab, "log", "file", 5);
    assert_eq!((&files[4]["outcome"], name(&files[4])), (&"failed".into(), lab.arg("missing")));
    assert_eq!(files[4]["reason"], "No such file or directory");
    let connections = wait_for(lab, "log", "connection", 3);
    assert_eq!(connections.iter().map(|each| number(each, "files")).collect::<Vec<_>>(), [3, 1, 1]);
    let commands = records(lab, "log").into_iter().filter(|record| record["event"] == "command").count();
    assert_eq!(commands, 0, "files are told of once");
}

/// Covers: sshd_config TransferLog (connections without a login)
#[test]
fn rejected_connections_are_logged() {
    let Some(setup) =
        ServerSetup::new("rejected_connections_are_logged", "TransferLog {lab}/log\nTransferLogFormat json")
    else {
        return;
    };
    let unknown = "nosuchuser";
    setup.ssh_as(unknown, &[], &["true"]);
    setup.ssh(&["-o", "IdentityFile=/dev/null", "-o", "PubkeyAuthentication=no"], &["true"]);
    drop(TcpStream::connect(("127.0.0.1", setup.server.port)).unwrap());
    let connections = wait_for(&setup.lab, "log", "connection", 3);
    assert_eq!(
        (&connections[0]["user"], &connections[0]["outcome"]),
        (&unknown.into(), &"invalid user".into())
    );
    assert!(number(&connections[0], "failed_attempts") > 0);
    assert_eq!(connections[1]["user"], me());
    assert_ne!(connections[1]["outcome"], "disconnected by client");
    assert_eq!(connections[2]["outcome"], "closed before authentication");
    assert_eq!(connections[2].get("user"), None);
}

/// Covers: sshd_config TransferLog (names of files)
#[test]
fn file_names_cannot_forge_log_lines() {
    for format in ["text", "json"] {
        let Some(setup) = ServerSetup::new(
            "file_names_cannot_forge_log_lines",
            &format!("TransferLog {{lab}}/log\nTransferLogFormat {format}"),
        ) else {
            return;
        };
        let lab = &setup.lab;
        let name = "a\nevent=file user=root outcome=complete\r\u{1b}[2J\u{9b}x\"";
        std::fs::write(lab.path(name), "content").unwrap();
        // Only our client accepts a name with a newline in a glob.
        let mut args = lab.client_options();
        args.extend([
            "-P".into(),
            setup.server.port_arg(),
            format!("{}@127.0.0.1:{}/a?event*", me(), lab.arg("")),
            lab.arg("home"),
        ]);
        lab.run(&our("lhscp"), &args).ok("lhscp");
        eventually("the connection is over", || {
            std::fs::read_to_string(lab.path("log")).is_ok_and(|log| log.contains("disconnected by client"))
        });
        let text = lab.read("log");
        assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "{text:?}");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2, "{text}");
        if format == "json" {
            let record: Value = serde_json::from_str(lines[0]).unwrap();
            assert!(record["path"].as_str().is_some_and(|path| path.ends_with(name)), "{record}");
        } else {
            assert!(
                lines[0].contains(
                    "\\nevent=file user=root outcome=complete\\r\\u{1b}[2J\\u{9b}x\\\"\" direction=download"
                ),
                "{text}"
            );
        }
    }
}

/// Covers: sshd_config TransferLogFormat (hpn)
#[test]
fn scrapers_of_hpn_ssh_find_their_lines() {
    let Some(setup) = ServerSetup::new(
        "scrapers_of_hpn_ssh_find_their_lines",
        "TransferLog {lab}/log\nTransferLogFormat hpn",
    ) else {
        return;
    };
    setup
        .ssh(&["-o", "Ciphers=aes128-ctr", "-o", "MACs=hmac-sha2-256"], &["head -c 2000000 /dev/zero"])
        .ok("ssh");
    eventually("the last line", || {
        setup.lab.path("log").exists() && setup.lab.read("log").contains("LType: Throughput")
    });
    let log = setup.lab.read("log");
    let lines: Vec<&str> =
        log.lines().filter_map(|line| line.split_once(" SSH: Server;")).map(|(_, rest)| rest).collect();
    let has = |kind: &str, part: &str| {
        let found = lines
            .iter()
            .any(|line| line.starts_with(&format!("{kind};Remote: 127.0.0.1-")) && line.contains(part));
        assert!(found, "{kind} with {part} in {log}");
    };
    has("Ltype: Version", ";Protocol: 2.0;Client: OpenSSH_");
    has("Ltype: Kex", ";Enc: aes128-ctr;MAC: hmac-sha2-256;Comp: none");
    has("Ltype: Authname", &format!(";Name: {}", me()));
    let throughput = lines.iter().find(|line| line.starts_with("LType: Throughput")).expect("throughput");
    let out: u64 =
        throughput.split(";OUT: ").nth(1).and_then(|rest| rest.split(';').next()).unwrap().parse().unwrap();
    assert!(out > 2_000_000, "HPN-SSH itself always says 0: {throughput}");
}

/// Covers: sshd_config TransferLog (rotation)
#[test]
fn a_log_may_be_renamed_while_sessions_last() {
    let Some(setup) = ServerSetup::new("a_log_may_be_renamed_while_sessions_last", "TransferLog {lab}/log")
    else {
        return;
    };
    let lab = &setup.lab;
    make_blob(&lab.path("blob"), 100_000);
    let (first, second) = (lab.arg("one"), lab.arg("two"));
    // One connection. Between its transfers the log is renamed and the server gets SIGHUP, as by logrotate.
    let batch = format!(
        "put {blob} {first}\n!until test -s {log}; do sleep 0.05; done; mv {log} {log}.1 && kill -HUP {pid}\n\
         put {blob} {second}\n",
        blob = lab.arg("blob"),
        log = lab.arg("log"),
        pid = setup.server.pid()
    );
    setup.sftp(&batch).ok("sftp");
    eventually("the connection is over", || {
        lab.path("log").exists() && lab.read("log").contains("event=connection")
    });
    assert!(lab.read("log.1").contains(&first) && !lab.read("log.1").contains(&second));
    assert!(lab.read("log").contains(&second) && !lab.read("log").contains(&first));
}

/// Covers: sshd_config TransferLog (privilege separation)
#[test]
fn transfer_log_is_not_writable_by_users() {
    if !is_root() {
        return skip("transfer_log_is_not_writable_by_users", "not root");
    }
    let lab = Lab::new();
    let user = TestUser::new(&lab);
    let directory = lab.path("private");
    std::fs::create_dir(&directory).unwrap();
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(&directory, std::fs::Permissions::from_mode(0o700)).unwrap();
    let Some(setup) = ServerSetup::with_lab(
        "transfer_log_is_not_writable_by_users",
        lab,
        "TransferLog {lab}/private/log\nTransferLogFormat json\nAuthorizedKeysFile .ssh/authorized_keys",
    ) else {
        return;
    };
    let log = setup.lab.arg("private/log");
    let ran = setup.ssh_as(&user.name, &[], &[&format!("id -un; cat {log} || true")]).ok("ssh");
    assert_eq!(ran.text().trim(), user.name, "and nothing of the log");
    let commands = wait_for(&setup.lab, "private/log", "command", 1);
    assert_eq!(commands[0]["user"], user.name);
    // A killed session has a record too.
    let ran = setup.ssh_as(&user.name, &[], &["kill -9 $PPID; sleep 5"]);
    assert_ne!(ran.code, 0);
    let connections = wait_for(&setup.lab, "private/log", "connection", 2);
    assert_eq!(
        (&connections[1]["user"], &connections[1]["outcome"]),
        (&user.name.clone().into(), &"ended".into())
    );
}

#[test]
fn a_log_that_cannot_be_written_costs_one_line_and_no_session() {
    let Some(setup) = ServerSetup::new(
        "a_log_that_cannot_be_written_costs_one_line_and_no_session",
        "TransferLog {lab}/nonexistent/log",
    ) else {
        return;
    };
    assert_eq!(setup.ssh(&[], &["echo fine"]).ok("ssh").text(), "fine\n");
    setup.logged("TransferLog: ");
    assert_eq!(setup.server.log().matches("TransferLog: ").count(), 1, "{}", setup.server.log());
    for (line, why) in [
        ("TransferLog relative", "TransferLog must be an absolute path, syslog, journald or none."),
        ("TransferLogFormat xml", "xml"),
        ("PrometheusListen 0.0.0.0:9", "0.0.0.0 is no loopback address"),
        ("PrometheusListen [2001:db8::1]:9 everybody", "\"everybody\" is not public"),
        ("PrometheusListen somewhere", "\"somewhere\" is no address and port"),
    ] {
        setup.lab.write("bad", &format!("{line}\nHostKey {}\n", setup.lab.arg("host_ed25519")));
        let ran = setup.lab.run(&our("lhsshd"), &["-t", "-f", &setup.lab.arg("bad")]);
        assert!(ran.code != 0 && ran.err.contains(why), "{line}: {} {}", ran.code, ran.err);
    }
    setup.lab.write(
        "good",
        &format!("PrometheusListen 0.0.0.0:9 public\nHostKey {}\n", setup.lab.arg("host_ed25519")),
    );
    let ran = setup.lab.run(&our("lhsshd"), &["-T", "-f", &setup.lab.arg("good")]).ok("public");
    assert!(ran.text().contains("prometheuslisten 0.0.0.0:9 public\n"), "{}", ran.text());
}

/// Covers: sshd_config TransferLog (syslog, journald)
#[test]
fn the_system_s_logs_get_lines_and_fields() {
    let test = "the_system_s_logs_get_lines_and_fields";
    if !is_root() {
        return skip(test, "not root");
    }
    let Some([ssh, _unshare]) = peers(test, ["ssh", "unshare"]) else { return };
    for target in ["journald", "syslog"] {
        let lab = Lab::new();
        // A mount namespace with our socket in place of the log's. (ssh ends its ProxyCommand by a signal,
        // which must not end the session.)
        let socket = UnixDatagram::bind(lab.path("socket")).unwrap();
        socket.set_read_timeout(Some(std::time::Duration::from_secs(60))).unwrap();
        let place = if target == "journald" { "/run/systemd/journal/socket" } else { "/dev/log" };
        let inside = format!(
            "set -e; mkdir -p {run}/run/systemd/journal {run}/dev; touch {run}{place}; \
             d=$(dirname {place}); if [ $d = /dev ]; then mount -t tmpfs tmpfs {run}/dev; \
             for n in null zero urandom random tty full ptmx; do [ -e /dev/$n ] && touch {run}/dev/$n && mount --bind /dev/$n {run}/dev/$n; done; \
             [ -d /dev/pts ] && mkdir {run}/dev/pts && mount --bind /dev/pts {run}/dev/pts; touch {run}/dev/log; \
             mount --bind {socket} {run}/dev/log; mount --move {run}/dev /dev; \
             else mount -t tmpfs tmpfs /run; mkdir -p $d /run/sshd; touch {place}; mount --bind {socket} {place}; fi; \
             exec setsid -f -w {lhsshd} -i -e -f {conf}",
            run = lab.arg("root"),
            socket = lab.arg("socket"),
            lhsshd = our("lhsshd").display(),
            conf = lab.arg("conf"),
        );
        lab.write("inside", &inside);
        lab.write(
            "conf",
            &format!(
                "TransferLog {target}\nHostKey {}\nAuthorizedKeysFile {}\nPermitRootLogin yes\nStrictModes no\n",
                lab.arg("host_ed25519"),
                lab.arg("authorized_keys")
            ),
        );
        let proxy = format!("ProxyCommand=unshare -m --propagation private /bin/bash {}", lab.arg("inside"));
        let mut args = vec!["-o".to_owned(), proxy, "-o".into(), "StrictHostKeyChecking=no".into()];
        args.extend(lab.client_options());
        args.extend([format!("{}@127.0.0.1", me()), "head -c 1000 /dev/zero".into()]);
        assert_eq!(lab.run(&ssh, &args).ok(target).out.len(), 1000);
        let mut got = [0; 8192];
        let n = uninterrupted(|| socket.recv(&mut got)).unwrap_or_else(|error| panic!("{target}: {error}"));
        let text = String::from_utf8_lossy(&got[..n]).into_owned();
        if target == "journald" {
            for field in [
                "MESSAGE=event=command ",
                "PRIORITY=6",
                "SYSLOG_IDENTIFIER=lhsshd-transfer",
                "LONGHAUL_EVENT=command",
                "LONGHAUL_BYTES_OUT=1000",
                "LONGHAUL_COMMAND=head -c 1000 /dev/zero",
            ] {
                assert!(text.lines().any(|line| line.starts_with(field)), "{field} in {text}");
            }
        } else {
            // AUTH.INFO.
            assert!(text.starts_with("<38>lhsshd-transfer["), "{text}");
            assert!(text.contains("]: event=command ") && text.contains(" bytes_out=1000 "), "{text}");
        }
    }
}

/// Returns the counters, by name and labels.
fn counters(address: &str) -> std::collections::BTreeMap<String, u64> {
    let mut stream = TcpStream::connect(address).unwrap_or_else(|error| panic!("{address}: {error}"));
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").expect("an answer");
    assert!(head.starts_with("HTTP/1.1 200 OK"), "{head}");
    let lines = body.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let (name, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("{line}"));
            (name.to_owned(), value.parse().unwrap_or_else(|error| panic!("{line}: {error}")))
        })
        .collect()
}

fn address(server: &Lhsshd) -> String {
    let said = |log: &str| Some(log.split_once("Counters at http://")?.1.split('/').next()?.to_owned());
    eventually("the address of the counters", || said(&server.log()).is_some());
    said(&server.log()).unwrap_or_default()
}

/// Covers: sshd_config PrometheusListen
#[test]
fn prometheus_counters_match_the_sessions() {
    let Some(setup) = ServerSetup::new(
        "prometheus_counters_match_the_sessions",
        "PrometheusListen 127.0.0.1:0\nMaxStartups 100",
    ) else {
        return;
    };
    let at = address(&setup.server);
    // The sessions of other tests' servers count until they have refused this listener.
    eventually("no session is counted", || counters(&at)["lhsshd_sessions"] == 0);
    assert_eq!(counters(&at)["lhsshd_connections_total"], 0);
    make_blob(&setup.lab.path("blob"), SIZE as usize);
    let (blob, up) = (setup.lab.arg("blob"), setup.lab.arg("up"));
    setup
        .sftp(&format!(
            "put {blob} {up}\nget {up} {}\n-put {blob} /nonexistent/file\n",
            setup.lab.arg("down")
        ))
        .ok("sftp");
    setup.ssh_as("nosuchuser", &[], &["true"]);
    setup.ssh(&[], &["true"]).ok("ssh");
    eventually("all sessions are over", || counters(&at)["lhsshd_sessions"] == 0);
    let after = counters(&at);
    for (name, value) in [
        ("connections_total", 3),
        ("authentications_total{result=\"success\"}", 2),
        ("authentications_total{result=\"invalid_user\"}", 1),
        ("files_total{direction=\"upload\",outcome=\"complete\"}", 1),
        ("files_total{direction=\"download\",outcome=\"complete\"}", 1),
        ("files_total{direction=\"upload\",outcome=\"failed\"}", 1),
        ("file_bytes_total{direction=\"upload\"}", SIZE),
        ("file_bytes_total{direction=\"download\"}", SIZE),
        ("commands_total", 1),
        ("unauthenticated_sessions", 0),
    ] {
        assert_eq!(after[&format!("lhsshd_{name}")], value, "{name} in {after:?}");
    }
    assert!(after["lhsshd_received_bytes_total"] > SIZE && after["lhsshd_sent_bytes_total"] > SIZE);
    assert!(after["lhsshd_failed_attempts_total"] > 0);

    // Concurrent sessions are all counted: one that ends during another's login does not lose its count.
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| setup.ssh(&[], &["true"]).ok("ssh"));
        }
    });
    eventually("all of them are over", || counters(&at)["lhsshd_sessions"] == 0);
    let after = counters(&at);
    let logins = after["lhsshd_authentications_total{result=\"success\"}"];
    assert_eq!((logins, after["lhsshd_commands_total"]), (18, 17), "{after:?}");

    // A running session is counted, and silent connections to the counters' port block no login.
    let silent: Vec<_> = (0..20).map(|_| TcpStream::connect(&at).unwrap()).collect();
    let mut args = setup.args(&[], &me(), &["sleep 60"]);
    let mut child = Command::new(&setup.ssh).args(&mut args).current_dir(setup.lab.dir()).spawn().unwrap();
    drop(silent);
    eventually("the session counts", || {
        let now = counters(&at);
        now["lhsshd_sessions"] == 1 && now["lhsshd_authentications_total{result=\"success\"}"] == logins + 1
    });
    child.kill().unwrap();
    child.wait().unwrap();
    eventually("it has gone", || counters(&at)["lhsshd_sessions"] == 0);
    assert!(Path::new(&up).exists());
}
