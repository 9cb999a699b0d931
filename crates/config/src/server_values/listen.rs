//! Values of keywords about the listening addresses and the load balancers in front of the server.

use crate::cidr;
use crate::forward::parse_port;
use crate::line::Arguments;
use crate::names::bracketed;
use crate::table::Value;
use crate::value_error::{Syntax, ValueError};

/// `Port` lines.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ports(pub Vec<u16>);

impl Value for Ports {
    const KIND: &'static str = "port, may be repeated";
    const ACCUMULATES: bool = true;
    fn parse(args: &mut Arguments) -> Result<Self, ValueError> {
        let word = args.required()?;
        parse_port(&word)
            .filter(|p| *p != 0)
            .map(|p| Self(vec![p]))
            .ok_or_else(|| args.malformed(Syntax::Port, &word))
    }
    fn append(&mut self, later: Self) {
        self.0.extend(later.0);
    }
    fn dump(&self, name: &str, out: &mut Vec<String>) {
        out.extend(self.0.iter().map(|port| format!("{name} {port}")));
    }
}

/// Networks and addresses, separated by commas, or `none`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Networks(pub Option<String>);

impl Value for Networks {
    const KIND: &'static str = "networks separated by commas, or none";
    fn parse(args: &mut Arguments) -> Result<Self, ValueError> {
        let list = args.required()?;
        if list.eq_ignore_ascii_case("none") {
            return Ok(Self(None));
        }
        if !cidr::is_network_list(&list) {
            return Err(args.malformed(Syntax::Networks, &list));
        }
        Ok(Self(Some(list)))
    }
    fn dump(&self, name: &str, out: &mut Vec<String>) {
        out.push(format!("{name} {}", self.0.as_deref().unwrap_or("none")));
    }
}

/// One `ListenAddress`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListenAddress {
    /// A name or an address.
    pub host: String,
    /// `None` means every `Port`.
    pub port: Option<u16>,
}

/// `ListenAddress` lines.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ListenAddresses(pub Vec<ListenAddress>);

impl ListenAddresses {
    /// Removes the ports, so that every address applies to every `Port`. Lines with equal hosts become one.
    pub fn drop_ports(&mut self) {
        let mut kept: Vec<ListenAddress> = Vec::new();
        for address in self.0.drain(..) {
            let address = ListenAddress { port: None, ..address };
            if !kept.contains(&address) {
                kept.push(address);
            }
        }
        self.0 = kept;
    }
}

impl Value for ListenAddresses {
    const KIND: &'static str = "address, may be repeated";
    const ACCUMULATES: bool = true;
    fn parse(args: &mut Arguments) -> Result<Self, ValueError> {
        let word = args.required()?;
        let (host, port) = if let Some(rest) = word.strip_prefix('[') {
            let (host, after) =
                rest.split_once(']').ok_or_else(|| args.malformed(Syntax::ListenBrackets, &word))?;
            match after.strip_prefix(':') {
                Some(port) => (host.to_string(), Some(port)),
                None if after.is_empty() => (host.to_string(), None),
                None => return Err(args.malformed(Syntax::ListenAddress, &word)),
            }
        } else {
            match word.split_once(':') {
                Some((host, port)) if !port.contains(':') => (host.to_string(), Some(port)),
                // Without a port: a name, an IPv4 or a bare IPv6 address.
                _ => (word.clone(), None),
            }
        };
        let port = match port {
            None => None,
            Some(text) => Some(
                parse_port(text)
                    .filter(|port| *port != 0)
                    .ok_or_else(|| args.malformed(Syntax::ListenPort, text))?,
            ),
        };
        if let Some(word) = args.next_word() {
            let domain = args.next_word().filter(|_| word == "rdomain");
            // Without its domain the address would be served in every other one, too.
            return Err(match domain {
                Some(domain) => args.malformed(Syntax::RoutingDomain, &domain),
                None => args.malformed(Syntax::ListenAddress, &word),
            });
        }
        Ok(Self(vec![ListenAddress { host, port }]))
    }
    fn append(&mut self, later: Self) {
        self.0.extend(later.0);
    }
    fn dump(&self, name: &str, out: &mut Vec<String>) {
        for address in &self.0 {
            let host = bracketed(&address.host);
            let port = address.port.map_or(String::new(), |p| format!(":{p}"));
            out.push(format!("{name} {host}{port}"));
        }
    }
}
