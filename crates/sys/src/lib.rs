//! The one door to the kernel and the C library, and the only crate that may contain `unsafe`.
//!
//! What `rustix` and the standard library offer safely is used from there, here and in the other crates. What
//! is left needs the C library itself, for one of three reasons: the name service switch (users may live in
//! LDAP or SSSD, and only `getpwnam_r` and its family see them), the password hashes of the system
//! (`crypt(3)`), and changes of process-wide ids, which the kernel does per thread and glibc for all threads.
//!
//! | module | what |
//! |---|---|
//! | [`users`] | passwd, group and shadow look-ups |
//! | [`crypt`] | checking a password against its hash |
//! | [`dumps`] | keeping keys out of core files |
//! | [`ids`] | becoming a user, for a while or for good |
//! | [`spawn`] | running a program with given fds, session and terminal |
//! | [`background`] | going on in the background, or in two processes |
//! | [`sandbox`] | a process that may compute and talk, and nothing else |
//! | [`child`] | waiting for a child through a pollable descriptor |
//! | [`pty`] | pseudo terminals |
//! | [`records`] | utmp, wtmp, btmp, lastlog |
//! | [`reverse_lookup`] | names of addresses |
//! | [`pam`] | pluggable authentication, where the feature of that name is on |
//! | [`gssapi`] | Kerberos, where the feature of that name is on |
//! | [`termios`] | raw mode, window sizes, the terminal modes of RFC 4254 section 8 |
//! | [`signals`] | signal names, and signals turned into readable bytes |
//! | [`interfaces`] | addresses of network interfaces |
//! | [`forward_lookup`] | what a name is an alias of, and records of the domain name system |
//! | [`syslog`] | the system's log |
//! | [`journal`] | systemd's journal |
//! | [`memory`] | how much memory the machine has left |
//! | [`mldsa`] | ML-DSA signatures under a context |
//! | [`rsa`] | RSA signatures over SHA-1, for old equipment |
//! | [`security_key`] | libraries that talk to FIDO security keys |
//! | [`socket`] | options and addresses of TCP sockets |
//! | [`tcp_info`] | what the kernel knows about a TCP connection |
//! | [`time`] | dates as people write them |
//! | [`tun`] | TUN devices, for tunnels and the emulated path of the bench |
//! | [`tuning`] | what users set about a TCP connection |
//! | [`folders`] | making folders |
//! | [`fd`] | descriptors: pipes, flags, the standard three |

pub mod background;
pub mod child;
pub mod crypt;
pub mod dumps;
pub mod fd;
pub mod folders;
pub mod forward_lookup;
pub mod gssapi;
pub mod ids;
pub mod interfaces;
pub mod journal;
pub mod memory;
pub mod mldsa;
pub mod pam;
pub mod pass;
pub mod pty;
pub mod records;
pub mod reverse_lookup;
pub mod rsa;
pub mod sandbox;
pub mod security_key;
pub mod signals;
pub mod socket;
pub mod spawn;
pub mod syslog;
pub mod tcp_info;
pub mod termios;
pub mod threads;
pub mod time;
pub mod tun;
pub mod tuning;
pub mod users;
