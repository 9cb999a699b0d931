//! Tests of SYMLINK's two strings, from clients and to servers of either order.

mod support;

use std::fs;
use std::path::{Path, PathBuf};

use lh_sftp::link_order::{Known, LinkOrder};
use lh_sftp::server::ServerOptions;
use lh_sftp::{PacketType, ReplyWriter, Session, StatusCode, extension};
use lh_sftp_fs::LocalFs;
use lh_wire::Writer;
use support::Peer;

const UNKNOWN: Option<&str> = Some("SSH-2.0-Unheard_1");
const OPENSSH: Option<&str> = Some("SSH-2.0-OpenSSH_9.2p1 Debian-2");
const NODE: Option<&str> = Some("SSH-2.0-ssh2js1.17.0");
const PHPSECLIB: Option<&str> = Some("SSH-2.0-phpseclib_3.0 (openssl, gmp)");

fn peer(dir: &Path, client: Option<&str>) -> Peer {
    Peer::of_client(Box::new(LocalFs::new(dir)), ServerOptions::default(), client)
}

/// Sends SYMLINK with its two strings in the given order, without our encoder.
fn symlink(peer: &mut Peer, first: &[u8], second: &[u8]) -> StatusCode {
    let mut message = Vec::new();
    message.nested(|out| {
        out.put_u8(PacketType::SYMLINK.0);
        out.put_u32(1);
        out.put_string(first);
        out.put_string(second);
    });
    peer.give(&message);
    match peer.take() {
        Some(lh_sftp::Incoming::Reply(reply)) => match reply.body {
            lh_sftp::ReplyBody::Status(status) => status.code,
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

fn points_to(link: &Path) -> String {
    fs::read_link(link).map_or_else(|error| error.to_string(), |target| target.display().to_string())
}

/// Covers: wire SSH_FXP_SYMLINK; wire symlink-order@rjk.greenend.org.uk
#[test]
fn client_identification_decides_the_order() {
    for (client, order) in [
        (OPENSSH, LinkOrder::TargetFirst),
        (Some("SSH-2.0-Longhaul_0.1.0"), LinkOrder::TargetFirst),
        (Some("SSH-2.0-paramiko_2.12.0"), LinkOrder::TargetFirst),
        (Some("SSH-2.0-JSCH-0.1.54"), LinkOrder::TargetFirst),
        (UNKNOWN, LinkOrder::TargetFirst),
        (Some("SSH-2.0-something_1"), LinkOrder::TargetFirst),
        (NODE, LinkOrder::LinkFirst),
        (Some("SSH-2.0-AsyncSSH_2.10.1"), LinkOrder::LinkFirst),
        (Some("SSH-2.0-libssh_0.10.6"), LinkOrder::LinkFirst),
        (Some("SSH-2.0-WinSCP_release_6.3.3"), LinkOrder::LinkFirst),
        (PHPSECLIB, LinkOrder::LinkFirst),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let mut peer = peer(dir.path(), client);
        // None of these names exists, so only the identification can decide the order.
        let (first, second) = order.sort(b"target", b"link");
        assert_eq!(symlink(&mut peer, first, second), StatusCode::OK);
        assert_eq!(points_to(&dir.path().join("link")), "target", "{client:?}");
        let offered = peer.session.extensions().iter().find(|(name, _)| name == extension::SYMLINK_ORDER);
        assert_eq!(offered.map(|(_, value)| value.as_str()), Some(order.name()), "{client:?}");
    }
}

#[test]
fn existing_files_decide_for_unknown_clients() {
    for client in [UNKNOWN, PHPSECLIB] {
        for order in [LinkOrder::TargetFirst, LinkOrder::LinkFirst] {
            let dir = tempfile::tempdir().unwrap();
            let at = |name: &str| dir.path().join(name);
            fs::create_dir(at("d")).unwrap();
            fs::write(at("file"), b"").unwrap();
            fs::write(at("d/inner"), b"").unwrap();
            let absolute = at("file").display().to_string();
            let mut peer = peer(dir.path(), client);
            for (target, link) in [
                ("file", "l1"),
                (absolute.as_str(), "d/l2"),
                // The target is relative to the directory of the link.
                ("../file", "d/l3"),
                ("inner", "d/l4"),
                ("d", "l5"),
            ] {
                let (first, second) = order.sort(target.as_bytes(), link.as_bytes());
                assert_eq!(symlink(&mut peer, first, second), StatusCode::OK, "{link}");
                assert_eq!(points_to(&at(link)), target, "{link} of {client:?}, {order:?}");
            }
        }
    }
}

/// Returns all links below `dir`, with their targets.
fn links_below(dir: &Path) -> Vec<(PathBuf, PathBuf)> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let mut links = Vec::new();
    for path in entries {
        match fs::read_link(&path) {
            Ok(target) => links.push((path, target)),
            Err(_) if path.is_dir() => links.extend(links_below(&path)),
            Err(_) => {}
        }
    }
    links.sort();
    links
}

/// A client whose usual order is known makes a link that exists, as scripts do that run twice. With the
/// strings exchanged, the server could make another link, and must not.
#[test]
fn repeated_links_are_refused() {
    use Sent::{Other, Usual};
    #[derive(Debug, Clone, Copy, PartialEq)]
    enum Sent {
        Usual,
        Other,
    }
    let cases = [
        // The usual order: new links, the same links again, and others in their place.
        (Usual, "v2", "{app}/new", true),
        (Usual, "missing", "{app}/dangling", true),
        (Usual, "file", "l1", true),
        (Usual, "../app/v2", "{app}/new2", true),
        (Usual, "{app}/v2", "l2", true),
        (Usual, "user@host:1", "lock", true),
        (Usual, "v2", "{app}/current", false),
        (Usual, "v2", "{app}/current/", false),
        (Usual, "missing", "{app}/current", false),
        (Usual, "{app}/missing", "{app}/current", false),
        (Usual, "{app}/v2", "{app}/current", false),
        (Usual, "../app/v2", "{app}/current", false),
        (Usual, "file", "l1", false),
        (Usual, "missing", "l1", false),
        (Usual, "user@host:2", "lock", false),
        // A directory has the link's name.
        (Usual, "v2", "{app}/v1", false),
        // The other order, shown by an existing target.
        (Other, "{app}/v2", "{app}/other", true),
        (Other, "{app}/v2", "{app}/other", false),
        (Other, "{app}/v2", "l3", true),
        (Other, "file", "l4", true),
        (Other, "inner", "d/l5", true),
        (Other, "../file", "d/l6", true),
        // No different from a link that is made again.
        (Other, "{app}/current", "{app}/live", false),
        (Other, "l1", "l7", false),
        // Leads nowhere.
        (Other, "file", "d/l8", false),
    ];
    for (client, usual) in [(UNKNOWN, LinkOrder::TargetFirst), (PHPSECLIB, LinkOrder::LinkFirst)] {
        let dir = tempfile::tempdir().unwrap();
        let (home, app) = (dir.path().join("home"), dir.path().join("app"));
        for path in [&home.join("d"), &app.join("v1"), &app.join("v2")] {
            fs::create_dir_all(path).unwrap();
        }
        for path in ["file", "d/inner"] {
            fs::write(home.join(path), b"").unwrap();
        }
        std::os::unix::fs::symlink("v1", app.join("current")).unwrap();
        let mut peer = peer(&home, client);
        for (sent, target, link, is_made) in cases {
            let what = format!("{sent:?} {target} {link} of {client:?}");
            let [target, link] = [target, link].map(|path| path.replace("{app}", &app.display().to_string()));
            let order = if sent == Usual { usual } else { usual.reversed() };
            let (first, second) = order.sort(target.as_bytes(), link.as_bytes());
            let mut expected = links_below(dir.path());
            if is_made {
                expected.push((home.join(&link), PathBuf::from(&target)));
                expected.sort();
            }
            let code = if is_made { StatusCode::OK } else { StatusCode::FAILURE };
            assert_eq!(symlink(&mut peer, first, second), code, "{what}");
            assert_eq!(links_below(dir.path()), expected, "{what}");
        }
    }
}

#[test]
fn known_clients_keep_their_order() {
    // `ln -s missing existing` fails, although it could succeed with the strings exchanged.
    for (client, order) in
        [(OPENSSH, LinkOrder::TargetFirst), (NODE, LinkOrder::LinkFirst), (None, LinkOrder::TargetFirst)]
    {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("existing"), b"").unwrap();
        let mut peer = peer(dir.path(), client);
        let (first, second) = order.sort(b"missing", b"existing");
        assert_eq!(symlink(&mut peer, first, second), StatusCode::FAILURE);
        assert!(fs::symlink_metadata(dir.path().join("missing")).is_err());
    }
    // Both exist: no link can be made in either order.
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a"), b"a").unwrap();
    fs::write(dir.path().join("b"), b"b").unwrap();
    assert_eq!(symlink(&mut peer(dir.path(), UNKNOWN), b"a", b"b"), StatusCode::FAILURE);
}

/// Returns a client session after the server's identification and these extensions.
fn session(server: Option<&str>, extensions: &[(&str, &str)]) -> Session {
    let mut session = Session::new();
    session.start(&mut Vec::new());
    session.set_server(server, None);
    let mut version = Vec::new();
    ReplyWriter(&mut version).version(3, extensions.iter().copied());
    session.input(version.into());
    session.poll().unwrap().unwrap();
    session
}

fn strings(session: &Session) -> Vec<u8> {
    let mut message = Vec::new();
    session.link_order().order().request(b"T", b"L").encode(0, &mut message);
    message.split_off(9)
}

#[test]
fn server_identification_decides_the_order() {
    let (target_first, link_first) = (b"\0\0\0\x01T\0\0\0\x01L", b"\0\0\0\x01L\0\0\0\x01T");
    for (server, expected) in [
        (None, target_first),
        (Some("SSH-2.0-OpenSSH_9.2p1"), target_first),
        (Some("SSH-2.0-Longhaul_0.1.0"), target_first),
        (Some("SSH-2.0-Go"), target_first),
        (Some("SSH-2.0-mod_sftp"), target_first),
        (Some("SSH-2.0-APACHE-SSHD-2.13.2"), target_first),
        (Some("SSH-2.0-ssh2js1.17.0srv"), link_first),
        (Some("SSH-2.0-AsyncSSH_2.10.1"), link_first),
        (Some("SSH-2.0-Twisted_22.4.0"), link_first),
        (Some("SSH-2.0-Erlang/4.15.2"), link_first),
    ] {
        assert_eq!(strings(&session(server, &[])), expected, "{server:?}");
    }
}

#[test]
fn the_offered_order_has_precedence() {
    let node = Some("SSH-2.0-ssh2js1.17.0srv");
    let offer = |order: LinkOrder| [(extension::SYMLINK_ORDER, order.name())];
    for order in [LinkOrder::TargetFirst, LinkOrder::LinkFirst] {
        let mut session = session(node, &offer(order));
        assert_eq!(session.link_order(), Known::Always(order));
        session.set_server(node, None);
        assert_eq!(session.link_order(), Known::Always(order), "also when the name comes later");
    }
    let odd = [(extension::SYMLINK_ORDER, "sideways")];
    assert_eq!(session(node, &odd).link_order(), Known::Always(LinkOrder::LinkFirst));
    assert_eq!(session(None, &odd).link_order(), Known::UNKNOWN);
}
