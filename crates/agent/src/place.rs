//! Names of agent sockets (as in OpenSSH since 10.1). Agents and servers that share a home directory
//! recognise their own sockets by them.

use lh_crypto::{Hash, Random};

const LETTERS: &[u8; 62] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

/// Returns the common prefix of the names of this host's sockets. Several machines may share a home
/// directory, and a socket works on one of them only, so the others must not delete it. `node` is the host
/// name from `uname(2)`.
pub fn host_prefix(node: &[u8]) -> String {
    let digest = Hash::Sha256.digest(&[node]);
    let mark: String = digest.as_ref().iter().take(10).map(|byte| letter(*byte)).collect();
    format!("s.{mark}.")
}

/// Returns the name of a socket in `~/.ssh/agent`; `program` is `agent` or `sshd`.
pub fn socket_name(node: &[u8], program: &str, random: &mut dyn Random) -> String {
    format!("{}{program}.{}", host_prefix(node), letters(10, random))
}

/// Returns the names of a directory below `/tmp` for the socket of one process, and of the socket in it.
pub fn temporary_names(pid: u32, random: &mut dyn Random) -> (String, String) {
    (format!("ssh-{}", letters(12, random)), format!("agent.{pid}"))
}

fn letters(count: usize, random: &mut dyn Random) -> String {
    let mut bytes = vec![0; count];
    random.fill(&mut bytes);
    bytes.into_iter().map(letter).collect()
}

fn letter(byte: u8) -> char {
    char::from(LETTERS[usize::from(byte) % LETTERS.len()])
}

#[cfg(test)]
mod tests {
    use super::*;
    use lh_crypto::SystemRandom;

    #[test]
    fn socket_names_identify_the_host_and_are_unique() {
        let random = &mut SystemRandom;
        let [first, second] = [0, 1].map(|_| socket_name(b"here", "agent", random));
        assert!(first.starts_with(&format!("{}agent.", host_prefix(b"here"))) && first != second);
        assert_ne!(host_prefix(b"here"), host_prefix(b"there"));
        let (directory, socket) = temporary_names(7, random);
        assert_eq!((directory.len(), socket.as_str()), (16, "agent.7"));
    }
}
