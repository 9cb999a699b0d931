//! Recipes for SFTP: chroots, groups, drop boxes and subsystems as administrators set them up.

use lh_interop::recipe::{RECIPE, Recipe};

/// The reason why failures have more than `Failure` to say between our programs.
const ERRNO: &str = "our server tells our client the system's own words";

/// The reason for what OpenSSH says three times to a user without a terminal.
const NO_EMPTY_PASSWORDS: &str = "OpenSSH sends empty passwords where it can ask no one";

/// The commonest SFTP account: a group, a chroot for each of its people, and a home that is not inside.
///
/// Covers: sshd_config ChrootDirectory; sshd_config ForceCommand; sshd_config Match (Group)
#[test]
fn sftp_only_group_without_homes_inside() {
    Recipe {
        server: "Match Group sftponly\n  ChrootDirectory /srv/%u\n  ForceCommand internal-sftp\n  AllowTcpForwarding no",
        setup: "group sftponly 3000 bob; mkdir -p /srv/bob/upload; chown bob: /srv/bob/upload",
        client: "echo words >file; sftp -b - bob@server <<E\npwd\nput file upload/new\nls -1 upload\nls -1 /\nE\n\
                 echo sftp $?; ssh bob@server id; echo command $?; ssh -T bob@server; echo shell $?\n\
                 scp file bob@server:upload/copy; echo scp $?; scp -O file bob@server:upload/old; echo old scp $?",
        look: "tree /srv",
        sees: &["Remote working directory: /\n", "This service allows sftp connections only."],
        ..RECIPE
    }
    .run();
}

/// A chroot that has the home inside, where the session starts.
///
/// Covers: sshd_config ChrootDirectory (a home inside)
#[test]
fn sftp_chroot_with_the_home_inside() {
    Recipe {
        server: "Match User bob\n  ChrootDirectory /srv/jails/%u\n  ForceCommand internal-sftp",
        setup: "mkdir -p /srv/jails/bob/home/bob; chown bob: /srv/jails/bob/home/bob; echo t >/srv/jails/bob/top",
        client: "echo words >file; sftp bob@server <<E\npwd\nput file\nls\nls /\nget /top\nE\n\
                 echo $?; cat top; scp bob@server:file back; scp bob@server:/top top2; cat back top2",
        look: "tree /srv",
        sees: &["Remote working directory: /home/bob\n", "words\nt\n"],
        ..RECIPE
    }
    .run();
}

/// Root owns the home, which is the chroot; the account writes to one directory below it.
///
/// Covers: token %h
#[test]
fn sftp_chroot_to_a_home_that_root_owns() {
    Recipe {
        server: "Match User bob\n  ChrootDirectory %h\n  ForceCommand internal-sftp -d /data",
        setup: "chown root: /home/bob; mkdir /home/bob/data; chown bob: /home/bob/data",
        client: "echo words >file; sftp -b - bob@server <<E\npwd\nput file\n-put file /top\n-mkdir /new\nls -1a\nE\n\
                 echo $?; sftp -b - bob@server <<E\nput file /top\nls\nE\necho $?",
        look: "tree /home/bob",
        sees: &["Remote working directory: /data\n", "Permission denied"],
        ..RECIPE
    }
    .run();
}

/// The directory of the chroots is a symbolic link to another disk.
#[test]
fn sftp_chroot_behind_a_symbolic_link() {
    Recipe {
        server: "Match User bob\n  ChrootDirectory /srv/sftp/%u\n  ForceCommand internal-sftp",
        setup: "mkdir -p /srv/disk2/bob/in; chown bob: /srv/disk2/bob/in; ln -s disk2 /srv/sftp",
        client: "echo words >file; printf 'put file in/\\nls in\\n' | sftp bob@server; echo $?",
        look: "tree /srv",
        sees: &["in/file"],
        ..RECIPE
    }
    .run();
}

/// A home below a symbolic link inside of the chroot.
#[test]
fn sftp_chroot_with_a_linked_home_inside() {
    Recipe {
        server: "Match User bob\n  ChrootDirectory /srv/jail\n  ForceCommand internal-sftp",
        setup: "mkdir -p /srv/jail/real/bob; chown bob: /srv/jail/real/bob; ln -s real /srv/jail/home",
        client: "printf 'pwd\\nmkdir new\\nls\\nls -1 /home\\n' | sftp bob@server",
        look: "tree /srv",
        sees: &["Remote working directory: /real/bob"],
        ..RECIPE
    }
    .run();
}

/// The mistake that everybody makes once: the account may write to its chroot.
#[test]
fn sftp_chroot_that_its_account_may_write_is_refused() {
    Recipe {
        server: "Match User bob\n  ChrootDirectory %h\n  ForceCommand internal-sftp",
        client: "printf 'pwd\\n' | sftp bob@server 2>/dev/null; echo $?; ssh bob@server id 2>/dev/null; echo $?",
        sees: &["255\n255"],
        ..RECIPE
    }
    .run();
}

/// Two groups with a chroot each: of the blocks that fit, the first decides; everybody else has a shell.
#[test]
fn sftp_groups_with_chroots_of_their_own() {
    Recipe {
        server: "Match Group press\n  ChrootDirectory /srv/press\n  ForceCommand internal-sftp\n\
                 Match Group customers\n  ChrootDirectory /srv/customers\n  ForceCommand internal-sftp -R",
        setup: "account ann 2010; account cy 2011; group press 3000 ann,cy; group customers 3001 cy,bob\n\
                mkdir -p /srv/{press,customers}/in; chgrp press /srv/press/in; chmod 2775 /srv/press/in\n\
                chgrp customers /srv/customers/in; chmod 2775 /srv/customers/in",
        client: "echo words >f; for who in ann bob cy; do echo put f in/$who | sftp -b - $who@server; echo $who $?; done\n\
                 printf 'ls /\\n' | sftp -b - me@server; echo me $?",
        look: "tree /srv",
        sees: &["ann 0", "bob 1", "cy 0"],
        ..RECIPE
    }
    .run();
}

/// A shared directory: the group is the directory's, and the group may write what is put there.
///
/// Covers: sshd_config Subsystem (internal-sftp -u)
#[test]
fn sftp_shared_directory_by_setgid_and_umask() {
    Recipe {
        server: "Match Group team\n  ForceCommand internal-sftp -u 0002\n",
        setup: "account ann 2010; group team 3000 ann,bob; mkdir /srv/team; chgrp team /srv/team; chmod 2770 /srv/team",
        client: "echo one >one; chmod 644 one; echo two >two; chmod 600 two; echo x >x; chmod 755 x; mkdir d; echo in >d/in\n\
                 sftp -b - bob@server <<E\ncd /srv/team\nput one\nput two\nput x\nmkdir made\nput -r d\nchmod 664 one\nE\necho $?\n\
                 scp one bob@server:/srv/team/scp; scp -rp d bob@server:/srv/team/dp; echo more >one\n\
                 printf 'put one /srv/team/one\\nrm /srv/team/x\\n' | sftp -b - ann@server; echo $?",
        look: "tree /srv/team; cat /srv/team/one",
        differs: &[("drwxr-sr-x 2002 3000 - /srv/team/d ", "drwxr-xr-x 2002 3000 - /srv/team/d ", "new directories stay the group's")],
        sees: &["drwxrwsr-x 2002 3000 - /srv/team/made", "-rw-rw-r-- 2002 3000 5 /srv/team/one"],
        ..RECIPE
    }
    .run();
}

/// Read-only SFTP for customers: reading works, and every way to write fails with words.
///
/// Covers: sshd_config Subsystem (internal-sftp -R)
#[test]
fn sftp_read_only_archive() {
    Recipe {
        server: "Match User bob\n  ForceCommand internal-sftp -R -d /srv/archive",
        setup: "mkdir -p /srv/archive/2024; echo old >/srv/archive/2024/report; chown -R bob: /srv/archive",
        client: "echo words >file; for line in 'put file' 'rm 2024/report' 'mkdir new' 'rename 2024 2023' 'chmod 700 2024' \
                 'ln 2024/report x' 'ln -s a b' 'rmdir 2024' 'put file 2024/report'; do\n\
                 echo \"$line\" | sftp -q -b - bob@server; echo $?; done\n\
                 scp file bob@server:; echo $?; scp -r bob@server:2024 .; echo $?; cat 2024/report\n\
                 printf 'get -r 2024 again\\n' | sftp -q -b - bob@server; cat again/report",
        look: "tree /srv/archive",
        sees: &["Permission denied", "old"],
        ..RECIPE
    }
    .run();
}

/// A drop box: names may be written, neither listed nor read nor removed.
///
/// Covers: sshd_config Subsystem (internal-sftp -P)
#[test]
fn sftp_drop_box_without_listing() {
    Recipe {
        server: "Match User bob\n  ForceCommand internal-sftp -d /srv/box -P read,opendir,readdir,remove,rename,posix-rename",
        setup: "mkdir /srv/box; chown bob: /srv/box; echo secret >/srv/box/other",
        client: "echo words >file; sftp -q -b - bob@server <<E\nput file\n-put file again\nE\necho $?\n\
                 for line in ls 'get other' 'rm other' 'rename other o'; do echo \"$line\" | sftp -q -b - bob@server; echo $?; done\n\
                 scp file bob@server:copy; echo $?; scp bob@server:other .; echo $?",
        look: "tree /srv/box",
        sees: &["/srv/box/file", "/srv/box/copy", "ermission denied"],
        differs: &[("ls\n1\n", "ls\n0\n", "OpenSSH's ls forgets that it was refused")],
        ..RECIPE
    }
    .run();
}

/// A drop box by modes: the directory may be entered and written, not read.
#[test]
fn sftp_drop_box_by_modes() {
    Recipe {
        setup: "mkdir /srv/box; chmod 1733 /srv/box; echo secret >/srv/box/other; chmod 600 /srv/box/other",
        client: "echo words >file; sftp -q -b - bob@server <<E\nput file /srv/box/file\n-ls /srv/box\n-get /srv/box/other\nE\n\
                 echo $?; scp file bob@server:/srv/box/; echo $?; scp file bob@server:/srv/box/other; echo $?",
        look: "tree /srv/box",
        sees: &["/srv/box/file", "ermission denied"],
        differs: &[("\"/srv/box\"", "\"/srv/box/\"", "a directory's name is as it was typed")],
        ..RECIPE
    }
    .run();
}

/// Only what an upload takes is allowed.
///
/// Covers: sshd_config Subsystem (internal-sftp -p)
#[test]
fn sftp_allow_list_of_an_upload() {
    Recipe {
        server: "Match User bob\n  ForceCommand internal-sftp -d /srv/box -p open,write,close,realpath,stat,lstat,fstat,fsetstat",
        setup: "mkdir /srv/box; chown bob: /srv/box",
        client: "echo words >file; head -c 300000 /dev/zero >big; printf 'put file\\nput big\\n' | sftp -q -b - bob@server; echo $?\n\
                 scp file big bob@server:/srv/box/; echo $?; printf 'mkdir x\\n' | sftp -q -b - bob@server; echo $?",
        look: "tree /srv/box",
        sees: &["/srv/box/big"],
        ..RECIPE
    }
    .run();
}

/// Several subsystems: SFTP, a read-only one, a program, one that is not there.
///
/// Covers: sshd_config Subsystem; ssh -s; sftp -s
#[test]
fn subsystems_beside_sftp() {
    Recipe {
        server: "Subsystem archive internal-sftp -R\nSubsystem status /usr/local/bin/status -v two\n\
                 Subsystem gone /usr/local/bin/gone",
        setup: "printf '#!/bin/sh\\nfor w; do echo \"<$w>\"; done; read l; echo got $l; echo err >&2; exit 3\\n' \
                >/usr/local/bin/status; chmod 755 /usr/local/bin/status",
        client: "echo words >file; echo hello | ssh -s bob@server status; echo $?; ssh -s bob@server gone; echo $?\n\
                 ssh -s bob@server nothing; echo $?; echo put file | sftp -b - -s archive bob@server; echo $?\n\
                 echo pwd | sftp -b - -s nothing bob@server; echo $?\n\
                 echo pwd | sftp -b - -s /usr/lib/openssh/sftp-server bob@server; echo $?",
        sees: &["<two>\ngot hello\n3\n", "127"],

        ..RECIPE
    }
    .run();
}

/// An account whose shell refuses: OpenSSH's server is run by the shell and is refused, the internal one is not.
#[test]
fn sftp_with_a_shell_that_refuses() {
    Recipe {
        server: "Subsystem internal internal-sftp",
        setup: "account ann 2010 /home/ann /usr/sbin/nologin; account cy 2011 /home/cy /bin/false; account lost 2012 /home/lost /bin/gone",
        client: "for who in ann cy lost; do for s in sftp internal; do\n\
                 echo pwd | sftp -b - -s $s $who@server 2>&1 | sed 's/port [0-9]*/port N/'; echo $who $s ${PIPESTATUS[1]}; done\n\
                 ssh $who@server; echo $who shell $?; ssh $who@server true; echo $who command $?; done",
        sees: &["ann internal 0", "ann sftp 255", "This account is currently not available."],
        differs: &[
            ("", "Permission denied, please try again.\n", NO_EMPTY_PASSWORDS),
            (
                "The remote side printed text where SFTP was expected; it begins \"This account is currently not \
                 available.\"\n",
                "",
                "what stands in the way is shown",
            ),
        ],
        ..RECIPE
    }
    .run();
}

/// `sftp-server` is the account's login shell.
///
/// Covers: sftp-server -c
#[test]
fn sftp_server_as_login_shell() {
    Recipe {
        setup: "account ann 2010 /home/ann /usr/lib/openssh/sftp-server; echo /usr/lib/openssh/sftp-server >>/etc/shells",
        client: "echo words >file; printf 'put file\\nls\\n' | sftp -b - ann@server; echo $?; scp ann@server:file f2; echo $?",
        look: "tree /home/ann",
        ..RECIPE
    }
    .run();
}

/// A key that is for SFTP alone.
///
/// Covers: authorized_keys command (internal-sftp); authorized_keys restrict
#[test]
fn sftp_only_key() {
    Recipe {
        setup: "sed -i 's/^/restrict,command=\"internal-sftp -u 027\" /' /home/bob/.ssh/authorized_keys",
        client: "echo words >file; printf 'put file\\nls\\n' | sftp -b - bob@server; echo $?; ssh bob@server id; echo $?\n\
                 ssh bob@server; echo $?; scp file bob@server:f2; echo $?; ssh bob@server internal-sftp; echo $?\n\
                 ssh me@server internal-sftp; echo $?",
        look: "tree /home/bob/f*",
        sees: &["This service allows sftp connections only."],
        differs: &[("", "Permission denied, please try again.\n", NO_EMPTY_PASSWORDS)],
        ..RECIPE
    }
    .run();
}

/// A full disk on the server: what is said, and what is left.
#[test]
fn sftp_to_a_full_disk() {
    Recipe {
        setup: "mkdir /srv/small; mount -t tmpfs -o size=256k,mode=777 small /srv/small",
        client: "head -c 1000000 /dev/zero >big; echo words >file; cd /home/me\n\
                 echo put big /srv/small/big | sftp -q -b - bob@server; echo $?; ssh bob@server 'cd /srv/small; rm -f big .big.*; ls -A'\n\
                 scp -q big bob@server:/srv/small/; echo $?; ssh bob@server 'cd /srv/small; rm -f big .big.*; ls -A'\n\
                 scp -q -O big bob@server:/srv/small/; echo $?; ssh bob@server 'cd /srv/small; rm -f big .big.*; ls -A'\n\
                 scp -q file bob@server:/srv/small/; echo $?",
        look: "tree /srv/small",
        sees: &["/srv/small/file"],
        // What has arrived stays as `.big.TAG.lhpart` for the next attempt; sftp leaves it under the final name.
        differs: &[
            ("\"/srv/small/big\": No space left on device", "\"/srv/small/big\": Failure", ERRNO),
            ("scp: /srv/small/big: No", "scp: /srv/small//big: No", "one slash"),
        ],
        ..RECIPE
    }
    .run();
}

/// The server's disk is read-only.
#[test]
fn sftp_to_a_read_only_file_system() {
    Recipe {
        setup: "mkdir /srv/ro; mount -t tmpfs -o mode=777 ro /srv/ro; echo here >/srv/ro/file; mkdir /srv/ro/d\n\
                mount -o remount,ro /srv/ro",
        client: "echo words >file; mkdir d; echo in >d/in; for line in 'put file /srv/ro/new' 'put file /srv/ro/file' \
                 'mkdir /srv/ro/x' 'rm /srv/ro/file' 'chmod 600 /srv/ro/file' 'put -r d /srv/ro' 'rename /srv/ro/file /srv/ro/f'; do\n\
                 echo \"$line\" | sftp -q -b - bob@server; echo $?; done\n\
                 scp file bob@server:/srv/ro/; echo $?; scp -r d bob@server:/srv/ro/; echo $?",
        look: "tree /srv/ro",
        differs: &[
            (": Read-only file system", ": Failure", ERRNO),
            ("", "scp: remote setstat \"/srv/ro/d\": Failure\n", "what could not be made is not set up"),
            ("", "remote setstat \"/srv/ro/d\": Failure\n", "the same"),
        ],
        ..RECIPE
    }
    .run();
}

/// File names that shells and terminals stumble over.
#[test]
fn sftp_names_that_are_hard_to_type() {
    Recipe {
        client: "mkdir -p 'my files/sub dir'; cd 'my files'; for n in 'a b' \"it's\" 'q\"q' '-dash' 'naïve' '日本' 'st*r' '[x]' 'back\\slash' 'semi;colon' '$HOME' ' lead' 'tab\there' '~'; do\n\
                 echo \"$n\" >\"./$n\"; done; cd ..; sftp -q -b - bob@server <<E\nput -r \"my files\"\ncd \"my files\"\nls -1\nget \"a b\" \"x y\"\nget ./-dash d\nrm \"it's\"\nE\n\
                 echo $?; scp -qr 'my files' bob@server:copy; echo $?; scp -q 'bob@server:copy/a b' z; echo $?; cat z 'x y' d\n\
                 scp -q 'bob@server:copy/*a*' . ; echo $?; ls",
        look: "tree /home/bob/copy /home/bob/my*",
        differs: &[("tab\\011here", "tab\there", "no control character of a name reaches the terminal")],
        ..RECIPE
    }
    .run();
}

/// Preserving modes and times with sftp and scp, down a tree.
///
/// Covers: scp -p; sftp -p
#[test]
fn sftp_keeps_modes_and_times() {
    Recipe {
        client: "mkdir -p t/d; echo a >t/a; echo b >t/d/b; chmod 751 t/d; chmod 640 t/a; chmod 755 t/d/b; touch -d '2001-02-03 04:05:06' t/a t/d/b t/d\n\
                 umask 077; sftp -q -b - bob@server <<E\nput -pr t put\nput -r t plain\nget -pr put got\nget -r put got2\nE\n\
                 echo $?; scp -qpr t bob@server:scp; scp -qr t bob@server:scp2; scp -qpr bob@server:scp back; scp -qOpr t bob@server:old\n\
                 find got got2 back -printf '%p %m\\n' | sort | awk '{print $2, $1}'; find got back -printf '%TY %p\\n' | sort",
        differs: &[
            ("751 back/d", "700 back/d", "-p keeps directories' modes too, whatever the umask"),
            ("751 got/d", "700 got/d", "the same"),
            ("755 back\n", "700 back\n", "the same"),
            ("755 got\n", "700 got\n", "the same"),
        ],
        look: "tree /home/bob/[ops]*; find /home/bob/{put,scp,old} -printf '%TY %p\\n' | sort",
        ..RECIPE
    }
    .run();
}

/// Links: made, shown, followed and copied.
#[test]
fn sftp_links() {
    Recipe {
        setup: "mkdir /home/bob/d; echo x >/home/bob/d/x; ln -s d /home/bob/l; ln -s nowhere /home/bob/broken; ln -s .. /home/bob/d/up; chown -hR bob: /home/bob",
        client: "sftp -q -b - bob@server <<E\nln -s d/x sl\nln d/x hl\n-ln d/x hl\n-symlink a l\nls -1\nls -1 l\ncd l\npwd\n-get broken\n-get l/x y\n-get /home/bob/broken\nE\n\
                 echo $?; scp -qr bob@server:l there; echo $?; scp -q bob@server:broken .; echo $?; find . -not -path './.*' | sort",
        look: "tree /home/bob/* | sort -k5",
        differs: &[
            (": File exists", ": Failure", ERRNO),
            ("stat remote \"/home/bob/broken\": No", "stat remote: No", "the name is told"),
            (
                "scp: l/up: directory loop, not copied\n",
                "scp: download /home/bob/d/up: not a regular file\n\
                 scp: Download of file /home/bob/d/up to there/up failed\n",
                "the reason is told",
            ),
            ("scp: broken: No such", "scp: stat remote: No such", "the name is told"),
        ],
        ..RECIPE
    }
    .run();
}

/// Batch files: a line that fails ends them, one with a minus in front does not.
///
/// Covers: sftp -b
#[test]
fn sftp_batches_end_at_failures() {
    Recipe {
        client: "sftp -b - bob@server <<E\n-rm nothing\n@mkdir quiet\n-@rm nothing\n!echo local\nlmkdir ld\nrm nothing\nmkdir never\nE\n\
                 echo $?; sftp -b /no/such bob@server; echo $?; printf 'nosuch command\\n' | sftp -b - bob@server; echo $?\n\
                 printf 'cd nowhere\\npwd\\n' | sftp bob@server; echo $?; printf 'get\\nput\\nput nothing\\nls nothing\\nlcd /nothing\\nchmod 9 x\\nchown x x\\n' | sftp bob@server; echo $?\n\
                 printf 'bye\\npwd\\n' | sftp -b - bob@server; echo $?; ls",
        look: "tree /home/bob/* | sort -k5",
        ..RECIPE
    }
    .run();
}

/// lftp mirrors there and back through a chroot.
#[test]
fn lftp_mirrors_through_a_chroot() {
    Recipe {
        tools: &["lftp"],
        server: "Match User bob\n  ChrootDirectory /srv\n  ForceCommand internal-sftp",
        setup: "mkdir /srv/in; chown bob: /srv/in",
        client: "mkdir -p t/d; echo a >t/a; echo b >t/d/b; chmod 751 t/d; chmod 640 t/a\n\
                 lftp -c 'set sftp:auto-confirm no; open sftp://bob:@server; mirror -R t in/t; mirror in/t back; ls in; rm -r in/t/d' | sed 's/ [A-Z][a-z][a-z] .* / /'\n\
                 echo $?; diff -r t back; echo $?",
        look: "tree /srv",
        ..RECIPE
    }
    .run();
}

/// A directory mounted with sshfs, out of a chroot.
#[test]
fn sshfs_mounts_a_chroot() {
    Recipe {
        tools: &["sshfs", "fusermount3"],
        server: "Match User bob\n  ChrootDirectory /srv\n  ForceCommand internal-sftp",
        setup: "mkdir /srv/in; chown bob: /srv/in; chmod 666 /dev/fuse",
        client: "mkdir m; sshfs bob@server:/in m -o idmap=user || exit 9; cd m; mkdir d; echo a >d/a; mv d/a b; ln -s b l; cat l; chmod 700 b\n\
                 echo more >>b; truncate -s 3 b; ls -1; stat -c '%A %U %s' b; cp b c; mv c b; rm l; cd; fusermount3 -u m; echo $?",
        look: "tree /srv",
        ..RECIPE
    }
    .run();
}

/// Forwards stay closed for SFTP-only accounts.
#[test]
fn sftp_only_accounts_have_no_forwards() {
    Recipe {
        server: "Match User bob\n  ChrootDirectory /srv\n  ForceCommand internal-sftp\n  AllowTcpForwarding no\n  X11Forwarding no\n  PermitTunnel no",
        client: "ssh -W server:22 bob@server; echo $?; timeout 20 ssh -N -R 4000:localhost:22 -o ExitOnForwardFailure=yes bob@server; echo $?",
        sees: &["administratively prohibited"],
        ..RECIPE
    }
    .run();
}
