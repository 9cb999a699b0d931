//! `IPQoS`: the traffic class of a connection's packets, by which routers treat them as interactive or bulk.

use lh_driver::Link;

use crate::options::{Options, Purpose};

/// Sets the traffic class of a link's packets by the purpose of its connection. Without effect behind a proxy
/// or jump host, whose connection has a class of its own.
pub(crate) fn mark_packets(options: &Options, link: &Link) {
    let quality = *options.config.ip_qos;
    let tos = if options.purpose == Purpose::Terminal { quality.interactive } else { quality.bulk };
    // 0 is the default of a new socket.
    if let Some(tos) = tos.filter(|tos| *tos != 0 && options.config.is_direct()) {
        let _ = lh_sys::socket::set_tos(link.stream().write_fd(), tos);
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::time::Instant;

    use lh_config::client::{CommandLine, Request};
    use lh_driver::Stream;
    use lh_transport::{Config, Transport};
    use rustix::net::sockopt::ip_tos;

    use super::*;

    #[test]
    fn purpose_of_the_connection_chooses_the_mark() {
        let mut request = Request::new("127.0.0.1", crate::options::local_account().expect("an account"));
        let quality = CommandLine::Flag("IPQoS", vec!["af21".to_owned(), "cs1".to_owned()]);
        request.command_line.push(quality);
        let mut options = Options::load(&request).expect("a configuration");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        for (purpose, tos) in [
            (Purpose::Terminal, 0x48),
            (Purpose::Copy, 0x20),
            (Purpose::Command, 0x20),
            (Purpose::Forwards, 0x20),
        ] {
            options.purpose = purpose;
            let socket = TcpStream::connect(listener.local_addr().expect("an address")).expect("connected");
            let transport =
                Transport::new(Config::client(), Box::new(lh_crypto::SystemRandom), Instant::now());
            let link = Link::new(transport, Stream::socket(socket.into()).expect("a stream"));
            mark_packets(&options, &link);
            assert_eq!(ip_tos(link.stream().write_fd()).expect("a value"), tos, "{purpose:?}");
        }
    }
}
