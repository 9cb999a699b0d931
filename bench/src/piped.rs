//! The ceiling of a pipe over a path: like [`wire`](crate::wire), with a pipe and a program at both ends.
//!
//! It uses one thread at each end, blocking calls and large buffers. Bytes are read from a pipe straight into
//! packets, which are sealed and sent, and at the other end opened and written to a pipe. The other work of
//! an SSH suite is left out: key exchange, channels, windows, and a loop over several descriptors. The copies
//! through the pipes and the programs at their ends remain.

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Command, Stdio};

use lh_crypto::{Direction, PacketIndex, PacketKey};
use rustix::stdio::{stdin, stdout};

use crate::cipher_suite::CipherSuite;
use crate::end::EndArgs;
use crate::wire::{Layout, advance, receive_and_open};

/// Bytes read from the pipe, sealed and sent at once.
const BATCH: usize = 256 * 1024;
/// Length of the fields before a payload, bytes: packet length and padding length.
const HEAD: usize = 5;
/// Size of the pipes, bytes, as in our own programs.
const PIPE_LEN: usize = 1 << 20;

/// `lh-bench piped-end --way send|receive --cipher SUITE [--packet N] [--to ADDRESS:PORT] -- [PROGRAM
/// [ARGUMENT…]]`: one end of the ceiling. It connects, or has the connection as standard input. The pipe
/// leads to the program, or is standard output or input.
///
/// # Errors
/// The connection, a pipe or the program fails, or a packet is not authentic.
pub fn end(args: &[String]) -> Result<(), String> {
    let args = EndArgs::parse(args)?;
    let sends = match args.value("--way") {
        Some("send") => true,
        Some("receive") => false,
        _ => return Err("--way send or --way receive".to_owned()),
    };
    let suite = CipherSuite::parse(args.value("--cipher").ok_or("no --cipher")?)?;
    let packet = args.value("--packet").map_or(Ok(32 * 1024), str::parse).map_err(|_| "--packet")?;
    let own = |fd: io::Result<OwnedFd>| fd.map_err(|error| format!("descriptor: {error}"));
    let mut stream = match args.value("--to") {
        Some(to) => TcpStream::connect(to).map_err(|error| format!("{to}: {error}"))?,
        None => TcpStream::from(own(stdin().try_clone_to_owned())?),
    };
    let _ = stream.set_nodelay(true);
    let mut program = start(args.command, sends)?;
    let inherited = if sends { stdin() } else { stdout() };
    let pipe = match &mut program {
        Some(Child { stdout: Some(out), .. }) if sends => out.as_fd().try_clone_to_owned(),
        Some(Child { stdin: Some(input), .. }) => input.as_fd().try_clone_to_owned(),
        _ => inherited.try_clone_to_owned(),
    };
    let pipe = own(pipe)?;
    // Fails for descriptors that are not pipes, which is fine.
    let _ = rustix::pipe::fcntl_setpipe_size(&pipe, PIPE_LEN);
    if let Some(program) = &mut program {
        // These must be the last copies, or the other end of the pipe would never see EOF.
        (program.stdin, program.stdout) = (None, None);
    }
    let failed = |error: io::Error| format!("piped end: {error}");
    let key = |direction| suite.key(direction).map_err(|error| error.to_string());
    if sends {
        send(&key(Direction::Seal)?, packet, &pipe, &mut stream).map_err(failed)?;
        stream.shutdown(Shutdown::Write).map_err(failed)?;
        // The receiver hangs up when it has received everything.
        stream.read(&mut [0]).map_err(failed)?;
    } else {
        receive(&suite, &mut stream, &pipe).map_err(failed)?;
    }
    drop(pipe);
    if let Some(mut program) = program {
        let status = program.wait().map_err(|error| error.to_string())?;
        // A source that a signal or `timeout` has ended is not a failure.
        if !sends && !status.success() {
            return Err(format!("the program at the end of the pipe: {status}"));
        }
    }
    Ok(())
}

fn start(command: &[String], reads_from_it: bool) -> Result<Option<Child>, String> {
    let [program, rest @ ..] = command else { return Ok(None) };
    let mut command = Command::new(program);
    command.args(rest);
    if reads_from_it {
        command.stdin(Stdio::null()).stdout(Stdio::piped());
    } else {
        command.stdin(Stdio::piped()).stdout(Stdio::null());
    }
    command.spawn().map(Some).map_err(|error| format!("{program}: {error}"))
}

/// Sends the contents of `pipe` in packets until EOF.
fn send(key: &PacketKey, payload: usize, pipe: impl AsFd, stream: &mut impl Write) -> io::Result<()> {
    let layout = Layout::new(key, payload);
    let head = layout.packet(payload);
    let packets = (BATCH / layout.total).max(1);
    let mut slab = vec![0; packets * layout.total];
    let mut index = PacketIndex::default();
    loop {
        let mut places: Vec<IoSliceMut<'_>> = slab
            .chunks_exact_mut(layout.total)
            .map(|packet| IoSliceMut::new(&mut packet[HEAD..HEAD + payload]))
            .collect();
        let count = rustix::io::retry_on_intr(|| rustix::io::readv(&pipe, &mut places))?;
        if count == 0 {
            return Ok(());
        }
        let mut filled = 0;
        for (number, packet) in slab.chunks_exact_mut(layout.total).enumerate() {
            let length = count.saturating_sub(number * payload).min(payload);
            if length == 0 {
                break;
            }
            // Only the last packet is shorter than the others.
            let short = (length < payload).then(|| Layout::new(key, length));
            let layout = short.as_ref().unwrap_or(&layout);
            match &short {
                Some(short) => packet[..HEAD].copy_from_slice(&short.packet(length)[..HEAD]),
                None => packet[..HEAD].copy_from_slice(&head[..HEAD]),
            }
            key.seal(&index, &mut packet[..layout.total]).map_err(io::Error::other)?;
            advance(&mut index, key, layout.body);
            filled += layout.total;
        }
        stream.write_all(&slab[..filled])?;
    }
}

/// Writes the payloads of packets to `pipe` until the stream ends.
fn receive(suite: &CipherSuite, stream: &mut impl Read, pipe: impl AsFd) -> io::Result<u64> {
    receive_and_open(suite, stream, |packets| {
        let mut slices: Vec<IoSlice<'_>> =
            packets.iter().map(|packet| IoSlice::new(payload_of(packet))).collect();
        let mut rest = &mut slices[..];
        while !rest.is_empty() {
            let some = rest.len().min(64);
            let count = rustix::io::retry_on_intr(|| rustix::io::writev(&pipe, &rest[..some]))?;
            IoSlice::advance_slices(&mut rest, count);
        }
        Ok(())
    })
}

fn payload_of(packet: &[u8]) -> &[u8] {
    let padding = packet.get(HEAD - 1).map_or(0, |&length| usize::from(length));
    packet.get(HEAD..packet.len().saturating_sub(padding)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn piped_bytes_arrive_unchanged() {
        for name in ["aes128-gcm", "chacha20-poly1305", "aes128-ctr+hmac-sha2-256-etm"] {
            let suite = CipherSuite::parse(name).unwrap();
            let sent: Vec<u8> = (0..700_001_u32).flat_map(|n| n.to_be_bytes()).collect();
            let (from, mut into) = io::pipe().unwrap();
            let text = sent.clone();
            let feeding = std::thread::spawn(move || into.write_all(&text));
            let mut wire = Vec::new();
            send(&suite.key(Direction::Seal).unwrap(), 30_000, &from, &mut wire).unwrap();
            feeding.join().unwrap().unwrap();
            let (mut from, into) = io::pipe().unwrap();
            let reading = std::thread::spawn(move || {
                let mut got = Vec::new();
                from.read_to_end(&mut got).map(|_| got)
            });
            receive(&suite, &mut wire.as_slice(), &into).unwrap();
            drop(into);
            assert!(reading.join().unwrap().unwrap() == sent, "{name}");
        }
    }
}
