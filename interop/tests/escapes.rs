//! Escape sequences, typed on a terminal whose shell runs the client.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;

use lh_interop::Terminal;
use lh_interop::eventually;
use lh_interop::tunnel::{Pair, each_pair, free_port};

/// Starts a shell on a terminal, and the client in it.
fn started(pair: &Pair<'_>, given: &[&str]) -> Terminal {
    let words: Vec<String> = std::iter::once(pair.client.display().to_string())
        .chain(pair.args(given))
        .map(|word| format!("'{}'", word.replace('\'', "'\\''")))
        .collect();
    pair.lab.write("start", &words.join(" "));
    let home = pair.lab.path("home");
    let shell =
        Terminal::start(Path::new("/bin/bash"), &["--norc", "--noprofile", "-i"], pair.lab.dir(), &home);
    shell.send(". ./start\r");
    shell
}

/// Checks that the shell has the terminal back, in line mode with echo, and is its only reader.
fn assert_shell_has_terminal(shell: &mut Terminal) {
    for number in 20..23 {
        shell.send(&format!("echo local $(({number}+1))\r"));
        shell.expect(&format!("local {}", number + 1));
    }
}

/// Covers: ssh ~^Z; ssh -t
#[test]
fn a_session_is_suspended_and_comes_back() {
    each_pair("a_session_is_suspended", "", |pair| {
        let command = "echo it is $((40+2)); read a; echo got:$a; read b; echo then:$b";
        let mut shell = started(pair, &["-tt", "@host", command]);
        shell.expect("it is 42");
        shell.send("one\r");
        shell.expect("got:one");
        shell.send("~\x1a");
        shell.expect("[suspend ");
        shell.expect("Stopped");
        assert_shell_has_terminal(&mut shell);
        shell.send("fg\r");
        shell.send("two\r");
        shell.expect("then:two");
        // Text typed before the escape belongs to the session.
        shell.expect("Connection to 127.0.0.1 closed.");
        shell.send("echo status $?\r");
        shell.expect("status 0");
        shell.send("exit\r");
        assert_eq!(shell.wait(), 0);
    });
}

/// Covers: ssh ~&; ssh -L; ssh -R
#[test]
fn a_session_in_the_background_ends_with_its_last_connection() {
    each_pair("a_session_in_the_background", "", |pair| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (port, back, target) = (free_port(), free_port(), listener.local_addr().unwrap().port());
        let forward = format!("127.0.0.1:{port}:127.0.0.1:{target}");
        let remote = format!("127.0.0.1:{back}:127.0.0.1:{target}");
        let command = "echo it is $((40+2)); cat; echo over";
        let mut shell = started(pair, &["-tt", "-L", &forward, "-R", &remote, "@host", command]);
        shell.expect("it is 42");
        let mut near = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let (mut far, _) = listener.accept().unwrap();
        far.write_all(b"before").unwrap();
        near.read_exact(&mut [0; 6]).unwrap();
        shell.send("~&");
        shell.expect("[backgrounded]");
        // The shell and the open connection continue; new connections are refused.
        assert_shell_has_terminal(&mut shell);
        assert!(TcpStream::connect(("127.0.0.1", port)).is_err(), "it still listens here");
        assert!(TcpStream::connect(("127.0.0.1", back)).is_ok(), "the client has gone");
        drop(listener.accept().unwrap());
        far.write_all(b"after").unwrap();
        near.read_exact(&mut [0; 5]).unwrap();
        near.write_all(b"back").unwrap();
        far.read_exact(&mut [0; 4]).unwrap();
        // The remote program has read end of file.
        eventually("the command's last word", || shell.screen().contains("over"));
        // The checks above must not leave connections open.
        drop((near, far, listener));
        eventually("it ends with the connection", || TcpStream::connect(("127.0.0.1", back)).is_err());
        shell.send("exit\r");
        shell.wait();
    });
}

/// Covers: ssh ~B; ssh ~R; ssh ~#; ssh ~?; ssh ~V; ssh ~v; ssh ~I; ssh ~.; wire break
#[test]
fn a_session_goes_on_after_each_escape() {
    each_pair("a_session_goes_on", "", |pair| {
        let command = "stty -echo; echo it is $((40+2)); while read a; do echo got:$a; done";
        let mut shell = started(pair, &["-tt", "@host", command]);
        shell.expect("it is 42");
        let mut escapes = vec![
            ("~R", ""),
            ("~B", "~B"),
            ("~#", "The following connections are open:"),
            ("~?", "Supported escape sequences:"),
            ("~~.", ""),
        ];
        if pair.is_ours() {
            // OpenSSH has these only in some builds, or not with servers other than OpenSSH.
            escapes.extend([
                ("~v", "[LogLevel VERBOSE]"),
                ("~V", "[LogLevel INFO]"),
                ("~I", "kexalgorithm "),
            ]);
        }
        for (index, (keys, shown)) in escapes.into_iter().enumerate() {
            shell.send(keys);
            shell.expect(shown);
            shell.send(&format!("still {index}\r"));
            shell.expect(if keys == "~~." { "got:~.still " } else { "got:still " });
            shell.expect(&format!("{index}\r\n"));
        }
        shell.send("~.");
        shell.expect("Connection to 127.0.0.1 closed.");
        shell.send("echo status $?\r");
        shell.expect("status 255");
        shell.send("exit\r");
        shell.wait();
    });
}
