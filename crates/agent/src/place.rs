//! How the sockets of agents are called, so that agents and servers of one home folder recognise each other's
//! (OpenSSH's names since 10.1).

use lh_crypto::{Hash, Random};

const LETTERS: &[u8; 62] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

/// What the names of all sockets of this host begin with. Home folders may be shared by many machines, and a socket is of
/// use on one of them: others may not clear it away. `node` is the host's name as `uname(2)` has it.
pub fn host_prefix(node: &[u8]) -> String {
    let digest = Hash::Sha256.digest(&[node]);
    let mark: String = digest.as_ref().iter().take(10).map(|byte| letter(*byte)).collect();
    format!("s.{mark}.")
}

/// A socket in `~/.ssh/agent`; `program` is `agent` or `sshd`.
pub fn socket_name(node: &[u8], program: &str, random: &mut dyn Random) -> String {
    format!("{}{program}.{}", host_prefix(node), letters(10, random))
}

/// A folder below `/tmp` for the socket of one process, and that socket in it.
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
    fn names_say_whose_they_are_and_never_repeat() {
        let random = &mut SystemRandom;
        let [first, second] = [0, 1].map(|_| socket_name(b"here", "agent", random));
        assert!(first.starts_with(&format!("{}agent.", host_prefix(b"here"))) && first != second);
        assert_ne!(host_prefix(b"here"), host_prefix(b"there"));
        let (folder, socket) = temporary_names(7, random);
        assert_eq!((folder.len(), socket.as_str()), (16, "agent.7"));
    }
}
