//! Fuzz entry points for what the client parses besides packets: answers of resolvers, output of xauth, the
//! first message of X11 programs, fields of a server's requests, and packets of proxy clients.

/// Parses a resolver's answer with fingerprints of host keys.
pub fn dns_answer(bytes: &[u8]) {
    crate::sshfp::fuzz(bytes);
}

/// Parses a cookie from xauth's list, and the first message of an X11 program that arrives in pieces of
/// `piece` bytes.
pub fn x11_setup(list: &str, message: &[u8], piece: usize) {
    crate::x11::fuzz_setup(list, message, piece);
}

/// Reads the fields of a server's channel opens and channel requests, and packets of proxy clients.
pub fn fields(bytes: &[u8]) {
    crate::x11::fuzz_fields(bytes);
    crate::session::fuzz_fields(bytes);
    crate::forward::fuzz_fields(bytes);
    crate::mux::fuzz_frames(bytes);
}
