use lh_cli::flags::SSH;

use super::*;

fn interpreted(arguments: &[&str]) -> Result<Arguments, String> {
    let parsed = SSH.parse(arguments.iter().map(OsString::from)).map_err(|stop| stop.err)?;
    let account = Account {
        name: "me".to_owned(),
        uid: 1000,
        home: PathBuf::from("/home/me"),
        host_name: "here".to_owned(),
    };
    interpret(&parsed, account).map_err(|error| error.to_string())
}

fn keywords(arguments: &Arguments) -> Vec<(String, String)> {
    let flag = |line: &CommandLine| match line {
        CommandLine::Flag(name, words) => ((*name).to_owned(), words.join(" ")),
        CommandLine::Option(text) => ("-o".to_owned(), text.clone()),
    };
    arguments.request.command_line.iter().map(flag).collect()
}

#[test]
fn command_is_everything_after_the_host() {
    let got = interpreted(&["-p", "2222", "me@h", "ls", "-l", "a  b"]).expect("fine");
    assert_eq!(got.command.as_deref(), Some(&b"ls -l a  b"[..]));
    assert_eq!(interpreted(&["host", ""]).expect("fine").command, None, "a shell");
    assert_eq!(interpreted(&["host", "", ""]).expect("fine").command.as_deref(), Some(&b" "[..]));
    assert_eq!(got.request.host, "h");
    let pairs = keywords(&got);
    assert_eq!(pairs[0], ("Port".to_owned(), "2222".to_owned()));
    // The user of user@host comes last: -l and -o override it.
    assert_eq!(pairs[1], ("User".to_owned(), "me".to_owned()));
}

#[test]
fn flags_may_follow_the_host_once() {
    let got = interpreted(&["h", "-l", "you", "cmd", "-l", "x"]).expect("fine");
    assert_eq!(got.command.as_deref(), Some(&b"cmd -l x"[..]));
    assert_eq!(keywords(&got), [("User".to_owned(), "you".to_owned())]);
    let got = interpreted(&["me@h", "-l", "you"]).expect("fine");
    assert_eq!(keywords(&got)[0], ("User".to_owned(), "me".to_owned()), "a flag after the host comes later");
    for (args, port) in [
        (&["ssh://h:6", "-p", "5"][..], "6"),
        (&["ssh://h:6", "-l", "you", "-p", "5", "cmd"], "6"),
        (&["-p", "5", "ssh://h:6"], "5"),
        (&["-v", "ssh://h:6"], "6"),
    ] {
        let got = interpreted(args).expect("fine");
        let first = keywords(&got).into_iter().find(|(keyword, _)| keyword == "Port");
        assert_eq!(first, Some(("Port".to_owned(), port.to_owned())), "{args:?}");
    }
}

#[test]
fn verbosity_and_terminal_flags_are_counted() {
    let got = interpreted(&["-vv", "-tt", "-v", "h"]).expect("fine");
    let pairs = keywords(&got);
    assert!(pairs.contains(&("LogLevel".to_owned(), "DEBUG3".to_owned())));
    assert!(pairs.contains(&("RequestTTY".to_owned(), "force".to_owned())));
    let got = interpreted(&["-v", "-q", "h"]).expect("fine");
    assert!(keywords(&got).contains(&("LogLevel".to_owned(), "QUIET".to_owned())));
}

#[test]
fn uris_are_parsed_and_bad_destinations_refused() {
    let got = interpreted(&["ssh://me@h:2022"]).expect("fine");
    assert!(keywords(&got).contains(&("Port".to_owned(), "2022".to_owned())));
    assert!(interpreted(&[]).is_err_and(|text| text.starts_with("usage: lhssh")));
    assert!(interpreted(&["@h"]).is_err_and(|text| text.starts_with("usage: lhssh")));
    let start = "You must specify a subsystem to invoke.\nusage: lhssh";
    assert!(interpreted(&["-s", "h"]).is_err_and(|text| text.starts_with(start)));
    assert_eq!(interpreted(&["a;b"]).err().as_deref(), Some("hostname contains invalid characters"));
}

#[test]
fn session_types_exclude_each_other() {
    let subsystem = Some("Cannot specify -s with -N/SessionType");
    let none = Some("Cannot specify -N with -s/SessionType");
    for (line, expected) in [
        ("-s -N h", none),
        ("-N -s h x", subsystem),
        ("-oSessionType=default -N h", none),
        ("-osessiontype=none -s h x", subsystem),
        ("-W a:1 -s h x", subsystem),
        ("-N -N h", None),
        ("-s -s h x", None),
        ("-s -oSessionType=none h x", None),
        ("-oSessionType=none -N -W a:1 h", None),
        ("-oSessionType=None -N h", None),
        ("-oSessionType=\"none\" -N h", None),
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        assert_eq!(interpreted(&words).err().as_deref(), expected, "{line}");
    }
}

#[test]
fn forwards_become_keywords_or_errors() {
    let got =
        interpreted(&["-L", "[::1]:80:h:443", "-R8080", "-D", "localhost:1080", "-g", "h"]).expect("fine");
    let pairs = keywords(&got);
    assert_eq!(pairs[0], ("GatewayPorts".to_owned(), "yes".to_owned()));
    assert_eq!(pairs[1], ("LocalForward".to_owned(), "[ :1]:80:h:443".to_owned()));
    assert_eq!(pairs[2], ("RemoteForward".to_owned(), "8080".to_owned()));
    assert_eq!(pairs[3], ("DynamicForward".to_owned(), "localhost:1080".to_owned()));
    for (flag, kind) in [("-L", "local"), ("-R", "remote"), ("-D", "dynamic"), ("-W", "stdio")] {
        let text = interpreted(&[flag, "no:no:no", "h"]).err();
        assert_eq!(text, Some(format!("Bad {kind} forwarding specification 'no:no:no'")));
    }
    assert!(interpreted(&["-W", "8080", "h"]).is_err());
    let got = interpreted(&["-W", "[::1]:80", "h"]).expect("fine");
    assert_eq!(got.stdio, Some(Endpoint::Tcp { host: Some("::1".to_owned()), port: 80 }));
    let cleared = ("ClearAllForwardings".to_owned(), "yes".to_owned());
    assert!(keywords(&got).contains(&cleared));
}

#[test]
fn empty_listen_address_means_every_address() {
    for (flag, keyword) in [("-L", "LocalForward"), ("-R", "RemoteForward")] {
        let got = interpreted(&[flag, ":80:h:443", "h"]).expect("fine");
        assert_eq!(keywords(&got)[0], (keyword.to_owned(), "* 80:h:443".to_owned()));
    }
}

#[test]
fn variables_in_forwards_are_replaced() {
    let is_host = |value: &str| !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let (name, value) = std::env::vars().find(|(_, value)| is_host(value)).expect("such a variable");
    let (local, stdio) = (format!("8080:a${{{name}}}b:80"), format!("${{{name}}}:82"));
    let got = interpreted(&["-L", &local, "-W", &stdio, "h"]).expect("fine");
    assert_eq!(keywords(&got)[0], ("LocalForward".to_owned(), format!("8080 a{value}b:80")));
    assert_eq!(got.stdio, Some(Endpoint::Tcp { host: Some(value), port: 82 }));
    let text = interpreted(&["-L", "8080:${NO_SUCH_VARIABLE}:80", "h"]).err().map(|error| error.to_string());
    assert_eq!(text, Some("Bad local forwarding specification '8080:${NO_SUCH_VARIABLE}:80'".to_owned()));
}

#[test]
fn jump_is_given_once_and_not_after_a_proxy() {
    let single = "Only a single -J option is permitted (use commas to separate multiple jump hops)";
    for (args, message) in [
        (&["-J", "a", "-J", "b", "h"][..], single),
        (&["-o", "proxyjump a", "-J", "b", "h"], single),
        (&["-o", "ProxyCommand=x", "-J", "b", "h"], "Cannot specify -J with ProxyCommand"),
        (&["-J", "", "h"], "Invalid -J argument"),
        (&["-J", "a@b@c,,d", "h"], "Invalid -J argument"),
    ] {
        assert_eq!(interpreted(args).err().as_deref(), Some(message), "{args:?}");
    }
    let got = interpreted(&["-J", "u@a:22,ssh://b", "-o", "ProxyCommand=x", "h"]).expect("fine");
    assert_eq!(keywords(&got)[0], ("ProxyJump".to_owned(), "u@a:22,ssh://b".to_owned()));
}

#[test]
fn last_terminal_flag_decides_even_over_an_option() {
    for (args, value) in [
        (&["-tt", "-o", "RequestTTY=no", "h"][..], "force"),
        (&["-o", "RequestTTY=no", "-t", "h"], "yes"),
        (&["-tt", "-T", "h"], "no"),
        (&["-T", "-t", "h"], "yes"),
    ] {
        let got = interpreted(args).expect("fine");
        assert_eq!(keywords(&got)[0], ("RequestTTY".to_owned(), value.to_owned()), "{args:?}");
    }
}

#[test]
fn missing_identity_warns_and_is_left_out() {
    let got = interpreted(&["-i", "/nonexistent/key", "h"]).expect("fine");
    assert_eq!(
        got.warnings,
        ["Warning: Identity file /nonexistent/key not accessible: No such file or directory."]
    );
    assert!(keywords(&got).is_empty());
}
