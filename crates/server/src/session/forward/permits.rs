//! Permissions for forwarding: `AllowTcpForwarding`, `PermitOpen`, `permitlisten=` and so on.

use lh_config::enums::ServerGatewayPorts;
use lh_config::pattern::wildcard;
use lh_config::special::PermitForward;
use lh_driver::ListenOn;

use crate::key_options::split_host_port;
use crate::session::shared::Shared;

/// Returns whether this login may forward anything.
fn may_forward(shared: &Shared) -> bool {
    !shared.restricted() && !shared.settings.disable_forwarding.value && shared.options.port_forwarding
}

/// Returns whether this login may open connections to `host:port` from the server.
pub(super) fn may_connect(shared: &Shared, host: &str, port: u16) -> bool {
    let settings = &shared.settings;
    let keys = &shared.options.permit_open;
    may_forward(shared)
        && settings.allow_tcp_forwarding.value.local()
        && settings.permit_open.value.allows(host, port)
        && (keys.is_empty() || keys.iter().any(|permitted| opens(permitted, host, port)))
}

/// Returns whether this login may have TCP listeners on the server.
pub(super) fn may_forward_back(shared: &Shared) -> bool {
    may_forward(shared) && shared.settings.allow_tcp_forwarding.value.remote()
}

/// Returns whether this login may have a listener at `host:port` (`PermitListen`, `permitlisten=`).
pub(super) fn may_listen(shared: &Shared, host: &str, port: u16) -> bool {
    let by_server = match &shared.settings.permit_listen.value {
        PermitForward::Any => true,
        PermitForward::None => false,
        PermitForward::Only(list) => list.iter().any(|(name, number)| {
            number.is_none_or(|number| number == port) && matches(name.as_deref(), host)
        }),
    };
    let keys = &shared.options.permit_listen;
    by_server && (keys.is_empty() || keys.iter().any(|permitted| listens(permitted, host, port)))
}

/// Returns whether this login may connect to Unix sockets. A login limited to some ports (`PermitOpen`,
/// `permitopen=`) may not.
pub(super) fn may_connect_unix(shared: &Shared) -> bool {
    may_forward(shared)
        && shared.settings.allow_stream_local_forwarding.value.local()
        && shared.settings.permit_open.value == PermitForward::Any
        && shared.options.permit_open.is_empty()
}

/// Returns whether this login may have listening Unix sockets.
pub(super) fn may_listen_unix(shared: &Shared) -> bool {
    may_forward(shared) && shared.settings.allow_stream_local_forwarding.value.remote()
}

/// Returns the addresses to listen on for a requested `host` (sshd_config(5), `GatewayPorts`). Unless
/// `GatewayPorts` is set, a client can choose only among the loopback addresses.
pub(super) fn listen_on(host: &str, gateway: ServerGatewayPorts) -> ListenOn {
    let loopback = matches!(host, "127.0.0.1" | "::1");
    match gateway {
        ServerGatewayPorts::No if loopback => ListenOn::Host(host.to_owned()),
        ServerGatewayPorts::No => ListenOn::Loopback,
        ServerGatewayPorts::Yes => ListenOn::Everywhere,
        ServerGatewayPorts::ClientSpecified => match host {
            "" | "*" => ListenOn::Everywhere,
            // `localhost` means both address families.
            "localhost" => ListenOn::Loopback,
            host => ListenOn::Host(host.to_owned()),
        },
    }
}

/// Returns whether a `permitopen=` option matches.
fn opens(permitted: &str, host: &str, port: u16) -> bool {
    let Some((name, number)) = split_host_port(permitted) else { return false };
    (name == "*" || name.eq_ignore_ascii_case(host)) && is_port(number, port)
}

/// Returns whether a `permitlisten=` option matches. A port without a host matches every address.
fn listens(permitted: &str, host: &str, port: u16) -> bool {
    let (name, number) =
        split_host_port(permitted).map_or((None, permitted), |(name, port)| (Some(name), port));
    matches(name, host) && is_port(number, port)
}

fn matches(pattern: Option<&str>, host: &str) -> bool {
    pattern.is_none_or(|pattern| wildcard(host.to_ascii_lowercase().as_bytes(), pattern.as_bytes()))
}

fn is_port(text: &str, port: u16) -> bool {
    text == "*" || text.parse() == Ok(port)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permitopen_of_keys() {
        assert!(opens("db:5432", "DB", 5432));
        assert!(opens("*:80", "any", 80));
        assert!(opens("h:*", "h", 1));
        assert!(opens("[::1]:22", "::1", 22));
        assert!(!opens("db:5432", "db", 5433));
        assert!(!opens("db", "db", 1));
    }

    #[test]
    fn permitlisten_of_keys() {
        assert!(listens("8080", "localhost", 8080));
        assert!(listens("local*:8080", "LOCALHOST", 8080));
        assert!(listens("*", "", 0));
        assert!(!listens("localhost:8080", "0.0.0.0", 8080));
        assert!(!listens("8080", "localhost", 8081));
    }

    #[test]
    fn gateway_ports_decide_where_listeners_are() {
        use ServerGatewayPorts::{ClientSpecified, No, Yes};
        assert_eq!(listen_on("192.0.2.1", No), ListenOn::Loopback);
        assert_eq!(listen_on("", No), ListenOn::Loopback);
        assert_eq!(listen_on("::1", No), ListenOn::Host("::1".into()));
        assert_eq!(listen_on("localhost", Yes), ListenOn::Everywhere);
        assert_eq!(listen_on("localhost", ClientSpecified), ListenOn::Loopback);
        assert_eq!(listen_on("*", ClientSpecified), ListenOn::Everywhere);
        assert_eq!(listen_on("192.0.2.1", ClientSpecified), ListenOn::Host("192.0.2.1".into()));
    }
}
