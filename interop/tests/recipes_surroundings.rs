//! Recipes for surroundings that lack something: `/proc`, `/dev/pts`, disks with room, descriptors, a writable root, a right clock.

use lh_interop::recipe::{Ends, RECIPE, Recipe};

/// What is tried everywhere: a command, a copy, a terminal.
const TRIES: &str = "ssh bob@server 'id -un; cat' <<<in; echo $?; head -c 200000 /dev/zero >z; scp -q z bob@server:; echo $?; scp -q bob@server:z back; cmp z back; echo $?; \
    sftp -q -b - bob@server <<<'ls -1'; echo $?; ssh -tt bob@server 'test -t 0 && echo tty; exit 3' </dev/null 2>/dev/null | tr -d '\\r'; echo ${PIPESTATUS[0]}";

/// A server without `/dev/pts`: commands and copies work, terminals are refused.
#[test]
fn server_without_terminals() {
    Recipe { setup: "umount /dev/pts; rm /dev/ptmx", client: TRIES, sees: &["bob\nin\n0\n0\n0\n"], ..RECIPE }
        .run();
}

/// A read-only root file system with a writable home.
#[test]
fn server_on_a_read_only_root() {
    Recipe {
        setup: "mount -o remount,ro /tmp; mount -o remount,ro /run || true",
        client: TRIES,
        sees: &["bob\nin\n0\n0\n0\n"],
        ..RECIPE
    }
    .run();
}

/// A disk for logs and temporary files that is full.
#[test]
fn server_with_full_disks() {
    Recipe {
        setup: "for d in /tmp /var/tmp /run; do mount -o remount,size=4k $d; done; dd if=/dev/zero of=/tmp/fill bs=4k count=1 2>/dev/null || true",
        client: TRIES,
        sees: &["bob\nin\n0\n0\n0\n"],
        ..RECIPE
    }
    .run();
}

/// A full home at the client: known_hosts and downloads cannot be written. The file is larger than what waits on the way, so that
/// the command at the server still runs when writing fails here.
#[test]
fn client_with_a_full_home() {
    Recipe {
        setup: "mkdir /srv/h; mount -t tmpfs -o size=64k,mode=755 h /srv/h; cp -a /home/me/. /srv/h; mount --bind /srv/h /home/me; chown me: /home/me; truncate -s 100M /home/bob/big",
        client: "scp -q bob@server:big . ; echo $?; rm -f big .big*; dd if=/dev/zero of=fill bs=4k 2>/dev/null; ssh bob@server id -un; echo $?; ssh bob@server cat big >out 2>/dev/null; echo $?",
        sees: &["bob\n0\n"],
        ends: Ends::Client,
        ..RECIPE
    }
    .run();
}

/// Closed standard descriptors, as some schedulers start programs.
#[test]
fn closed_standard_descriptors() {
    Recipe {
        client: "ssh bob@server 'echo out' <&-; echo $?; ssh bob@server 'echo out >f1; exit 3' >&-; echo $?; ssh bob@server 'echo err >&2; exit 4' 2>&-; echo $?; ssh bob@server 'exit 5' <&- >&- 2>&-; echo $?; echo w >f; scp -q f bob@server:g <&- >&- 2>&-; echo $?; nohup ssh -n bob@server echo hup 2>/dev/null; setsid -w ssh bob@server echo sid",
        look: "tree /home/bob/f1 /home/bob/g",
        sees: &["hup\nsid\n"],
        ..RECIPE
    }
    .run();
}

/// A restrictive umask, an odd locale, no HOME, no TERM, a working directory that is gone.
#[test]
fn odd_surroundings_of_the_client() {
    Recipe {
        client: "umask 077; env -u HOME ssh bob@server id -un; echo $?; HOME=/nonexistent ssh bob@server id -un; echo $?; LANG=de_DE.UTF-8 LC_ALL=xx ssh bob@server 'echo $LC_ALL'; env -u TERM ssh -tt bob@server 'echo \"<$TERM>\"' </dev/null 2>/dev/null | tr -d '\\r'; mkdir d; cd d; rmdir ../d; ssh bob@server id -un; echo $?; env -i /usr/bin/ssh bob@server 'id -un'; PATH= /usr/bin/ssh -o ProxyCommand='/bin/true' bob@server true 2>/dev/null; echo $?",
        sees: &["bob\n0\nbob\n0\n"],
        ends: Ends::Client,
        ..RECIPE
    }
    .run();
}

/// A chroot for a shell with the few files that it takes, and no devices but two.
#[test]
fn chroot_with_a_shell_inside() {
    Recipe {
        server: "Match User bob\n  ChrootDirectory /srv/jail",
        setup: "mkdir -p /srv/jail/{bin,lib64,dev,home/bob,usr}; for p in bash cat ls id; do cp /bin/$p /srv/jail/bin; ldd /bin/$p | grep -o '/[^ ]*' | while read l; do mkdir -p /srv/jail/$(dirname $l); cp -n $l /srv/jail$l; done; done; mknod -m 666 /srv/jail/dev/null c 1 3; mknod -m 666 /srv/jail/dev/tty c 5 0; chown bob: /srv/jail/home/bob",
        client: "ssh bob@server 'pwd; ls /; id -u; cat' <<<in; echo $?; ssh bob@server 'echo x >f; exit 3'; echo $?; scp -O /etc/hostname bob@server: ; echo $?",
        look: "tree /srv/jail/home",
        sees: &["/home/bob\nbin\n"],
        ..RECIPE
    }
    .run();
}
