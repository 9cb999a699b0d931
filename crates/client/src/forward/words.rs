//! Messages about forwards, in ssh's words: programs that start `ssh -v` wait for these lines.

use lh_config::forward::{Endpoint, Forward};

/// Printed by ssh in place of a port for a socket path.
const NO_PORT: &str = "-2";

/// Returns `host:port`, `path:-2`, or `socks:0` for a dynamic forward.
fn connects_to(forward: &Forward) -> String {
    match &forward.connect {
        None => "socks:0".to_owned(),
        Some(Endpoint::Tcp { host, port }) => format!("{}:{port}", host.as_deref().unwrap_or_default()),
        Some(Endpoint::Unix(path)) => format!("{path}:{NO_PORT}"),
    }
}

/// Returns the listening address in the form of [`connects_to`]; `nothing_said` replaces a missing address.
fn listens_on(forward: &Forward, nothing_said: &str) -> String {
    match &forward.listen {
        Endpoint::Tcp { host, port } => match host.as_deref().unwrap_or(nothing_said) {
            "" => port.to_string(),
            host => format!("{host}:{port}"),
        },
        Endpoint::Unix(path) => format!("{path}:{NO_PORT}"),
    }
}

/// Returns the message logged before a local listener is opened.
pub(super) fn local(forward: &Forward, gateway_ports: bool) -> String {
    let listen = listens_on(forward, if gateway_ports { "*" } else { "LOCALHOST" });
    format!("Local connections to {listen} forwarded to remote address {}", connects_to(forward))
}

/// Returns the message logged before a listener at the server is requested.
pub(super) fn remote(forward: &Forward) -> String {
    let listen = listens_on(forward, "LOCALHOST");
    format!("Remote connections from {listen} forwarded to local address {}", connects_to(forward))
}

/// Returns the message logged for the server's reply.
pub(super) fn answered(forward: &Forward, ok: bool) -> String {
    let outcome = if ok { "success" } else { "failure" };
    let listen = listens_on(forward, "");
    format!("remote forward {outcome} for: listen {listen}, connect {}", connects_to(forward))
}

/// Returns the message logged for a connection to a local listener.
pub(super) fn requested(forward: &Forward) -> String {
    let at = match &forward.listen {
        Endpoint::Tcp { port, .. } => format!("port {port}"),
        Endpoint::Unix(path) => format!("path {path}"),
    };
    let (to, port) = match &forward.connect {
        None => ("socks", "0".to_owned()),
        Some(Endpoint::Tcp { host, port }) => (host.as_deref().unwrap_or_default(), port.to_string()),
        Some(Endpoint::Unix(path)) => (path.as_str(), NO_PORT.to_owned()),
    };
    format!("Connection to {at} forwarding to {to} port {port} requested.")
}

/// Returns the message about a port that the server chose.
pub fn allocated(forward: &Forward, port: u16) -> Option<String> {
    let chosen = matches!(forward.listen, Endpoint::Tcp { port: 0, .. });
    chosen.then(|| format!("Allocated port {port} for remote forward to {}", connects_to(forward)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_match_ssh() {
        let forward = |spec: &str| Forward::parse(spec, true).expect("a forward");
        let web = forward("8080:web:80");
        assert_eq!(
            local(&web, false),
            "Local connections to LOCALHOST:8080 forwarded to remote address web:80"
        );
        assert_eq!(local(&web, true), "Local connections to *:8080 forwarded to remote address web:80");
        assert_eq!(requested(&web), "Connection to port 8080 forwarding to web port 80 requested.");
        assert_eq!(answered(&web, true), "remote forward success for: listen 8080, connect web:80");
        let paths = forward("/run/a:/run/b");
        assert_eq!(remote(&paths), "Remote connections from /run/a:-2 forwarded to local address /run/b:-2");
        let dynamic = forward("127.0.0.1:1080");
        assert_eq!(
            answered(&dynamic, false),
            "remote forward failure for: listen 127.0.0.1:1080, connect socks:0"
        );
        assert_eq!(requested(&dynamic), "Connection to port 1080 forwarding to socks port 0 requested.");
        assert_eq!(allocated(&web, 5), None);
        assert_eq!(
            allocated(&forward("0:h:1"), 5).as_deref(),
            Some("Allocated port 5 for remote forward to h:1")
        );
    }
}
