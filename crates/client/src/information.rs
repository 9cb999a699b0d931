//! What `~I` and `-O conninfo` show of a connection.

use lh_driver::ControlCx;
use lh_transport::CompressionTotals;

/// Returns the output of `~I` and `-O conninfo`, in OpenSSH's words: both addresses and the algorithms.
pub fn connection_information(cx: &mut ControlCx<'_>) -> Vec<String> {
    let mut lines = vec![format!("Connection information for pid {}", std::process::id())];
    match cx.addresses() {
        Some((local, peer)) => lines.push(format!("  tcp {local} -> {peer}")),
        None => lines.push("  connected through a proxy".to_owned()),
    }
    if let Some(peer) = cx.peer_identification() {
        let version = |text: &str| text.strip_prefix("SSH-2.0-").unwrap_or(text).to_owned();
        let ours = version(&cx.own_identification());
        lines.push(format!("  versions {ours} -> {}", crate::log::sanitise(&version(peer))));
    }
    if let Some(names) = cx.negotiated() {
        lines.push(format!("  kexalgorithm {}", names.kex));
        lines.push(format!("  hostkeyalgorithm {}", names.host_key));
        for (what, to_server, to_client) in [
            ("cipher", &names.cipher_c2s, &names.cipher_s2c),
            ("mac", &names.mac_c2s, &names.mac_s2c),
            ("compression", &names.compression_c2s, &names.compression_s2c),
        ] {
            lines.push(in_both_directions(what, to_server, to_client));
        }
    }
    let traffic = cx.traffic();
    lines.push(format!("  traffic {} bytes in, {} bytes out", traffic.bytes_in, traffic.bytes_out));
    let (received, sent) = cx.compression_totals();
    if received != CompressionTotals::default() || sent != CompressionTotals::default() {
        lines.push(format!("    compressed {} in, {} out", saved(received), saved(sent)));
    }
    lines
}

/// Returns a text with the compressed and plain bytes, and their ratio.
fn saved(totals: CompressionTotals) -> String {
    let CompressionTotals { plain, compressed } = totals;
    let share = if plain == 0 { 0.0 } else { compressed as f64 / plain as f64 };
    format!("{compressed}/{plain} bytes (*{share:.3})")
}

/// Returns one algorithm, or two if the directions differ.
fn in_both_directions(what: &str, to_server: &str, to_client: &str) -> String {
    if to_server == to_client {
        format!("  {what} {to_server}")
    } else {
        format!("  {what} {to_server} client->server, {to_client} server->client")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn different_algorithms_per_direction_are_both_shown() {
        assert_eq!(in_both_directions("mac", "a", "a"), "  mac a");
        assert_eq!(in_both_directions("mac", "a", "b"), "  mac a client->server, b server->client");
    }
}
