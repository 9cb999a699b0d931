//! Marks the packets of copies as bulk.

use lh_client::{Client, Options as ClientOptions};

/// `IPQoS`: a copy is bulk.
pub(crate) fn mark_as_bulk(client: &mut Client, options: &ClientOptions) {
    // 0 is what a new socket has.
    let service = options.config.ip_qos.bulk.filter(|&service| service != 0);
    if let (Some(_), Some(service)) = (client.address(), service) {
        let _ = lh_sys::socket::set_tos(client.driver().link().stream().write_fd(), service);
    }
}
