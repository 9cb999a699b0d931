//! Interface to the kernel and the C library. Besides `lh_crypto_sys`, the only crate that may contain
//! `unsafe`.
//!
//! Here and in the other crates, code calls the safe functions of `rustix` and the standard library directly.
//! This crate covers functions that exist only in the C library:
//! - The name service switch: users may be stored in LDAP or SSSD, which only `getpwnam_r` and its family
//!   consult.
//! - The system's password hashes (`crypt(3)`).
//! - Changes of process-wide ids: the kernel changes them for one thread, glibc for all threads.
//!
//! | module | purpose |
//! |---|---|
//! | [`users`] | passwd, group and shadow look-ups |
//! | [`crypt`] | checking a password against its hash |
//! | [`dumps`] | keeping keys out of core files |
//! | [`ids`] | becoming a user, temporarily or permanently |
//! | [`spawn`] | running a program with given descriptors, session and terminal |
//! | [`background`] | continuing in the background, or in two processes |
//! | [`sandbox`] | confining a process to computation and open descriptors |
//! | [`child`] | waiting for a child through a pollable descriptor |
//! | [`pty`] | pseudo terminals |
//! | [`records`] | utmp, wtmp, btmp, lastlog |
//! | [`reverse_lookup`] | names of addresses |
//! | [`pam`] | pluggable authentication, where libpam is installed |
//! | [`gssapi`] | Kerberos, where MIT's library is installed |
//! | [`termios`] | raw mode, window sizes, the terminal modes of RFC 4254 section 8 |
//! | [`signals`] | signal names, and signals as a readable descriptor |
//! | [`interfaces`] | addresses of network interfaces |
//! | [`network_changes`] | changes of addresses, links and routes, and resumption after system suspend |
//! | [`forward_lookup`] | canonical names, and records of the domain name system |
//! | [`syslog`] | the system's log |
//! | [`journal`] | systemd's journal |
//! | [`memory`] | available memory of the machine |
//! | [`scheduling`] | nice values and time slices |
//! | [`shared_words`] | numbers that several processes share |
//! | [`security_key`] | FIDO security keys: libfido2, and middleware libraries |
//! | [`socket`] | options and addresses of TCP sockets |
//! | [`tcp_info`] | the kernel's data about a TCP connection |
//! | [`title`] | the title of the process, for `ps` |
//! | [`time`] | calendar dates and times |
//! | [`tun`] | TUN devices, for tunnels and the emulated path of the benchmarks |
//! | [`errno_text()`] | texts of system errors |
//! | [`tuning`] | user settings of a TCP connection |
//! | [`directories`] | private directories |
//! | [`fd`] | descriptors: pipes, flags, the standard three |
//!
//! The server runs on Linux only, and so do the modules that only the server uses. The others compile on
//! macOS and FreeBSD too, for the client programs. They use portable calls if there are any, or return
//! [`std::io::ErrorKind::Unsupported`] if callers can do without (docs/install.md lists the missing
//! features). Portable code that Linux does not use is still tested on Linux.

pub mod background;
pub mod child;
#[cfg(target_os = "linux")]
pub mod crypt;
pub mod directories;
#[cfg(target_os = "linux")]
pub mod dumps;
mod dynamic;
mod errno_text;
pub mod fd;
pub mod forward_lookup;
pub mod gssapi;
#[cfg(target_os = "linux")]
pub mod ids;
pub mod interfaces;
#[cfg(target_os = "linux")]
pub mod journal;
pub mod memory;
pub mod network_changes;
#[cfg(target_os = "linux")]
pub mod pam;
pub mod pass;
pub mod pipe;
pub mod private_group;
mod proc_file;
pub mod pty;
#[cfg(target_os = "linux")]
pub mod records;
pub mod reverse_lookup;
#[cfg(target_os = "linux")]
pub mod sandbox;
#[cfg(target_os = "linux")]
pub mod scheduling;
pub mod security_key;
pub mod service;
pub mod shared_words;
pub mod signals;
pub mod socket;
pub mod spawn;
#[cfg(target_os = "linux")]
pub mod syslog;
pub mod tcp_info;
pub mod termios;
pub mod threads;
pub mod time;
#[cfg(target_os = "linux")]
pub mod title;
pub mod tun;
pub mod tuning;
pub mod unix_sockets;
pub mod users;

pub use dynamic::LoadError;
pub use errno_text::errno_text;
