//! A home directory on a file system (FUSE) that is slow to open files, like a busy NFS server.
//!
//! It is read-only. Nothing is cached, so each access to a path queries the file system.

use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io::Read as _;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use crate::held_fs::{LONGEST, ROOT, attributes, init_reply, is_silent, long, number, opcode, send_reply};

/// The file system; unmounted when dropped.
pub struct SlowHome {
    point: PathBuf,
    stop: OwnedFd,
    thread: Option<JoinHandle<()>>,
}

/// A file, or a directory without content. Its inode is its index in the list plus [`ROOT`].
struct Node {
    parent: u64,
    name: String,
    content: Option<Vec<u8>>,
}

impl SlowHome {
    /// Mounts it on the directory `point`, with these files, which may be in directories of one level. Each
    /// OPEN takes `delay`.
    ///
    /// # Errors
    /// The system has no FUSE, or does not permit the mount.
    pub fn mount(point: &Path, files: &[(&str, Vec<u8>)], delay: Duration) -> std::io::Result<Self> {
        let device = OpenOptions::new().read(true).write(true).open("/dev/fuse")?;
        let options = format!("fd={},rootmode=40755,user_id=0,group_id=0,allow_other", device.as_raw_fd());
        let options = CString::new(options)?;
        mount("slow", point, "fuse", MountFlags::NOSUID | MountFlags::NODEV, options.as_c_str())?;
        let stop = eventfd(0, EventfdFlags::CLOEXEC)?;
        let (told, nodes) = (stop.try_clone()?, tree(files));
        let thread = std::thread::spawn(move || serve(&device, &told, &nodes, delay));
        Ok(Self { point: point.to_owned(), stop, thread: Some(thread) })
    }
}

impl Drop for SlowHome {
    fn drop(&mut self) {
        let _ = unmount(&self.point, UnmountFlags::DETACH);
        let _ = rustix::io::write(&self.stop, &1_u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn tree(files: &[(&str, Vec<u8>)]) -> Vec<Node> {
    let mut nodes = vec![Node { parent: 0, name: String::new(), content: None }];
    for (path, content) in files {
        let (directory, name) = path.rsplit_once('/').unwrap_or(("", path));
        let mut parent = ROOT;
        if !directory.is_empty() {
            parent = find(&nodes, ROOT, directory).unwrap_or_else(|| {
                nodes.push(Node { parent: ROOT, name: directory.to_owned(), content: None });
                nodes.len() as u64
            });
        }
        nodes.push(Node { parent, name: name.to_owned(), content: Some(content.clone()) });
    }
    nodes
}

fn find(nodes: &[Node], parent: u64, name: &str) -> Option<u64> {
    let is_it = |node: &Node| node.parent == parent && node.name == name;
    nodes.iter().position(is_it).map(|index| index as u64 + ROOT)
}

fn serve(device: &File, stop: &OwnedFd, nodes: &[Node], delay: Duration) {
    let mut buffer = vec![0; LONGEST];
    loop {
        let mut fds = [PollFd::new(device, PollFlags::IN), PollFd::new(stop, PollFlags::IN)];
        if poll(&mut fds, None).is_err() || !fds[1].revents().is_empty() {
            return;
        }
        let mut from = device;
        let Ok(length) = from.read(&mut buffer) else { return };
        let request = &buffer[..length];
        let (opcode, id, node) = (number(request, 4), long(request, 8), long(request, 16));
        if is_silent(opcode) {
            continue;
        }
        match answer(nodes, opcode, node, &request[40..], delay) {
            Ok(body) => send_reply(device, id, 0, &body),
            Err(error) => send_reply(device, id, -error.raw_os_error(), &[]),
        }
    }
}

fn answer(nodes: &[Node], opcode: u32, inode: u64, fields: &[u8], delay: Duration) -> Result<Vec<u8>, Errno> {
    let node = nodes.get((inode.max(ROOT) - ROOT) as usize).ok_or(Errno::NOENT)?;
    let shown = |inode: u64, node: &Node| match &node.content {
        Some(content) => attributes(inode, content.len() as u64, 0o100_644),
        None => attributes(inode, 0, 0o040_755),
    };
    Ok(match opcode {
        opcode::INIT => init_reply(),
        opcode::LOOKUP => {
            let name = std::str::from_utf8(fields.split_last().map_or(fields, |(_, name)| name));
            let found = find(nodes, inode, name.map_err(|_| Errno::NOENT)?).ok_or(Errno::NOENT)?;
            let mut body = found.to_ne_bytes().to_vec();
            // Generation, and times for which entry and attributes may be cached: zero.
            body.resize(40, 0);
            body.extend(shown(found, &nodes[(found - ROOT) as usize]));
            body
        }
        opcode::GETATTR => {
            let mut body = vec![0; 16];
            body.extend(shown(inode, node));
            body
        }
        opcode::OPEN | opcode::OPENDIR => {
            if opcode == opcode::OPEN {
                std::thread::sleep(delay);
            }
            // The file is not cached (FOPEN_DIRECT_IO).
            let mut body = vec![0; 16];
            body[8..12].copy_from_slice(&1_u32.to_ne_bytes());
            body
        }
        opcode::READ => {
            let content = node.content.as_deref().ok_or(Errno::ISDIR)?;
            let rest = content.get(long(fields, 8) as usize..).unwrap_or_default();
            rest[..rest.len().min(number(fields, 16) as usize)].to_vec()
        }
        opcode::STATFS => vec![0; 80],
        opcode::RELEASE | opcode::RELEASEDIR | opcode::FLUSH => Vec::new(),
        _ => return Err(Errno::NOSYS),
    })
}
