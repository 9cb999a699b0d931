//! Recipes for SFTP: chroots, groups, drop boxes and subsystems as administrators set them up.

use lh_interop::recipe::{RECIPE, Recipe};

/// The reason for what OpenSSH says three times to a user without a terminal.
const NO_EMPTY_PASSWORDS: &str = "OpenSSH sends empty passwords where it can ask no one";

/// The commonest SFTP account: a group, a chroot for each of its people, and a home that is not inside.
///
/// Covers: sshd_config ChrootDirectory; sshd_config ForceCommand; sshd_config Match (Group)
#[test]
fn sftp_only_group_without_homes_inside() {
    Recipe {
        server: r#"
Match Group sftponly
  ChrootDirectory /srv/%u
  ForceCommand internal-sftp
  AllowTcpForwarding no
"#,
        setup: "group sftponly 3000 bob; mkdir -p /srv/bob/upload; chown bob: /srv/bob/upload",
        client: r#"
echo words >file
sftp -b - bob@server <<E
pwd
put file upload/new
ls -1 upload
ls -1 /
E
echo sftp $?
ssh bob@server id; echo command $?
ssh -T bob@server; echo shell $?
scp file bob@server:upload/copy; echo scp $?
scp -O file bob@server:upload/old
echo old scp $?
"#,
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
        setup: r#"
mkdir -p /srv/jails/bob/home/bob
chown bob: /srv/jails/bob/home/bob
echo t >/srv/jails/bob/top
"#,
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
        client: r#"
echo words >file
sftp -b - bob@server <<E
pwd
put file
-put file /top
-mkdir /new
ls -1a
E
echo $?
sftp -b - bob@server <<E
put file /top
ls
E
echo $?
"#,
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
        client: r#"
printf 'pwd\n' | sftp bob@server 2>/dev/null; echo $?
ssh bob@server id 2>/dev/null; echo $?
"#,
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
        client: r#"
echo words >f
for who in ann bob cy; do echo put f in/$who | sftp -b - $who@server; echo $who $?; done
printf 'ls /\n' | sftp -b - me@server; echo me $?
"#,
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
        setup: r#"
account ann 2010
group team 3000 ann,bob
mkdir /srv/team
chgrp team /srv/team
chmod 2770 /srv/team
"#,
        client: r#"
echo one >one
chmod 644 one
echo two >two
chmod 600 two
echo x >x
chmod 755 x
mkdir d
echo in >d/in
sftp -b - bob@server <<E
cd /srv/team
put one
put two
put x
mkdir made
put -r d
chmod 664 one
E
echo $?
scp one bob@server:/srv/team/scp
scp -rp d bob@server:/srv/team/dp
echo more >one
printf 'put one /srv/team/one\nrm /srv/team/x\n' | sftp -b - ann@server; echo $?
"#,
        look: "tree /srv/team; cat /srv/team/one",
        differs: &[(
            "drwxr-sr-x 2002 3000 - /srv/team/d ",
            "drwxr-xr-x 2002 3000 - /srv/team/d ",
            "new directories stay the group's",
        )],
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
        client: r#"
echo words >file
for line in 'put file' 'rm 2024/report' 'mkdir new' 'rename 2024 2023' 'chmod 700 2024' 'ln 2024/report x' 'ln -s a b' 'rmdir 2024' 'put file 2024/report'; do
echo "$line" | sftp -q -b - bob@server; echo $?; done
scp file bob@server:; echo $?
scp -r bob@server:2024 .; echo $?
cat 2024/report
printf 'get -r 2024 again\n' | sftp -q -b - bob@server
cat again/report
"#,
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
        server: r#"
Match User bob
  ForceCommand internal-sftp -d /srv/box -P read,opendir,readdir,remove,rename,posix-rename
"#,
        setup: "mkdir /srv/box; chown bob: /srv/box; echo secret >/srv/box/other",
        client: r#"
echo words >file
sftp -q -b - bob@server <<E
put file
-put file again
E
echo $?
for line in ls 'get other' 'rm other' 'rename other o'; do
    echo "$line" | sftp -q -b - bob@server; echo $?
done
scp file bob@server:copy; echo $?
scp bob@server:other .; echo $?
"#,
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
        client: r#"
echo words >file
sftp -q -b - bob@server <<E
put file /srv/box/file
-ls /srv/box
-get /srv/box/other
E
echo $?
scp file bob@server:/srv/box/; echo $?
scp file bob@server:/srv/box/other; echo $?
"#,
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
        server: r#"
Match User bob
  ForceCommand internal-sftp -d /srv/box -p open,write,close,realpath,stat,lstat,fstat,fsetstat
"#,
        setup: "mkdir /srv/box; chown bob: /srv/box",
        client: r#"
echo words >file
head -c 300000 /dev/zero >big
printf 'put file\nput big\n' | sftp -q -b - bob@server; echo $?
scp file big bob@server:/srv/box/; echo $?
printf 'mkdir x\n' | sftp -q -b - bob@server; echo $?
"#,
        look: "tree /srv/box",
        sees: &["/srv/box/big"],
        ..RECIPE
    }
    .run();
}

/// Several subsystems: SFTP, a read-only one, a program, one that is not there.
///
/// Covers: wire subsystem; sshd_config Subsystem; ssh -s; sftp -s
#[test]
fn subsystems_beside_sftp() {
    Recipe {
        server: "Subsystem archive internal-sftp -R\nSubsystem status /usr/local/bin/status -v two\n\
                 Subsystem gone /usr/local/bin/gone",
        setup: r#"
printf '#!/bin/sh\nfor w; do echo "<$w>"; done; read l; echo got $l; echo err >&2; exit 3\n' >/usr/local/bin/status
chmod 755 /usr/local/bin/status
"#,
        client: r#"
echo words >file
echo hello | ssh -s bob@server status; echo $?
ssh -s bob@server gone; echo $?
ssh -s bob@server nothing; echo $?
echo put file | sftp -b - -s archive bob@server; echo $?
echo pwd | sftp -b - -s nothing bob@server; echo $?
echo pwd | sftp -b - -s /usr/lib/openssh/sftp-server bob@server; echo $?
"#,
        sees: &["<two>\ngot hello\n3\n", "127"],

        ..RECIPE
    }
    .run();
}

/// An account whose shell refuses: OpenSSH's server is run by the shell and is refused, the internal one is
/// not.
#[test]
fn sftp_with_a_shell_that_refuses() {
    Recipe {
        server: "Subsystem internal internal-sftp",
        setup: r#"
account ann 2010 /home/ann /usr/sbin/nologin
account cy 2011 /home/cy /bin/false
account lost 2012 /home/lost /bin/gone
"#,
        client: r#"
for who in ann cy lost; do for s in sftp internal; do
echo pwd | sftp -b - -s $s $who@server 2>&1 | sed 's/port [0-9]*/port N/'; echo $who $s ${PIPESTATUS[1]}; done
ssh $who@server; echo $who shell $?; ssh $who@server true; echo $who command $?; done
"#,
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
        setup: r#"
account ann 2010 /home/ann /usr/lib/openssh/sftp-server
echo /usr/lib/openssh/sftp-server >>/etc/shells
"#,
        client: r#"
echo words >file
printf 'put file\nls\n' | sftp -b - ann@server; echo $?
scp ann@server:file f2; echo $?
"#,
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
        client: r#"
echo words >file
printf 'put file\nls\n' | sftp -b - bob@server; echo $?
ssh bob@server id; echo $?
ssh bob@server; echo $?
scp file bob@server:f2; echo $?
ssh bob@server internal-sftp; echo $?
ssh me@server internal-sftp; echo $?
"#,
        look: "tree /home/bob/f*",
        sees: &["This service allows sftp connections only."],
        differs: &[("", "Permission denied, please try again.\n", NO_EMPTY_PASSWORDS)],
        ..RECIPE
    }
    .run();
}

/// Forwards stay closed for SFTP-only accounts.
#[test]
fn sftp_only_accounts_have_no_forwards() {
    Recipe {
        server: r#"
Match User bob
  ChrootDirectory /srv
  ForceCommand internal-sftp
  AllowTcpForwarding no
  X11Forwarding no
  PermitTunnel no
"#,
        client: r#"
ssh -W server:22 bob@server; echo $?
timeout 20 ssh -N -R 4000:localhost:22 -o ExitOnForwardFailure=yes bob@server; echo $?
"#,
        sees: &["administratively prohibited"],
        ..RECIPE
    }
    .run();
}
