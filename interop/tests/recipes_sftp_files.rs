//! Recipes for files over SFTP: full and read-only disks, odd names, modes, links, batches, lftp and sshfs.

use lh_interop::recipe::{Ends, RECIPE, Recipe};

/// The reason why failures have more than `Failure` to say between our programs.
const ERRNO: &str = "our server tells our client the system's own words";

/// A full disk on the server: what is said, and what is left.
#[test]
fn sftp_to_a_full_disk() {
    Recipe {
        setup: "mkdir /srv/small; mount -t tmpfs -o size=256k,mode=777 small /srv/small",
        client: r#"
head -c 1000000 /dev/zero >big
echo words >file
# What a session still writes to is there until it ends.
room() { eventually ! pgrep -u bob; ssh bob@server 'cd /srv/small; rm -f big .big.*; ls -A'; }
echo put big /srv/small/big | sftp -q -b - bob@server; echo $?
room
scp -q big bob@server:/srv/small/; echo $?
room
scp -q -O big bob@server:/srv/small/; echo $?
room
scp -q file bob@server:/srv/small/; echo $?
"#,
        look: "tree /srv/small",
        sees: &["/srv/small/file"],
        // What has arrived stays as `.big.TAG.lhpart` for the next attempt; sftp leaves it under the final
        // name.
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
        setup: r#"
mkdir /srv/ro
mount -t tmpfs -o mode=777 ro /srv/ro
echo here >/srv/ro/file
mkdir /srv/ro/d
mount -o remount,ro /srv/ro
"#,
        client: r#"
echo words >file
mkdir d
echo in >d/in
for line in 'put file /srv/ro/new' 'put file /srv/ro/file' 'mkdir /srv/ro/x' 'rm /srv/ro/file' 'chmod 600 /srv/ro/file' 'put -r d /srv/ro' 'rename /srv/ro/file /srv/ro/f'; do
echo "$line" | sftp -q -b - bob@server; echo $?; done
scp file bob@server:/srv/ro/; echo $?
scp -r d bob@server:/srv/ro/; echo $?
"#,
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
        client: r#"
mkdir -p t/d
echo a >t/a
echo b >t/d/b
chmod 751 t/d
chmod 640 t/a
chmod 755 t/d/b
touch -d '2001-02-03 04:05:06' t/a t/d/b t/d
umask 077
sftp -q -b - bob@server <<E
put -pr t put
put -r t plain
get -pr put got
get -r put got2
E
echo $?
scp -qpr t bob@server:scp
scp -qr t bob@server:scp2
scp -qpr bob@server:scp back
scp -qOpr t bob@server:old
find got got2 back -printf '%p %m\n' | sort | awk '{print $2, $1}'
find got back -printf '%TY %p\n' | sort
"#,
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
        setup: r#"
mkdir /home/bob/d
echo x >/home/bob/d/x
ln -s d /home/bob/l
ln -s nowhere /home/bob/broken
ln -s .. /home/bob/d/up
chown -hR bob: /home/bob
"#,
        client: r#"
sftp -q -b - bob@server <<E
ln -s d/x sl
ln d/x hl
-ln d/x hl
-symlink a l
ls -1
ls -1 l
cd l
pwd
-get broken
-get l/x y
-get /home/bob/broken
E
echo $?
scp -qr bob@server:l there; echo $?
scp -q bob@server:broken .; echo $?
find . -not -path './.*' | sort
"#,
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
        client: r#"
sftp -b - bob@server <<E
-rm nothing
@mkdir quiet
-@rm nothing
!echo local
lmkdir ld
rm nothing
mkdir never
E
echo $?
sftp -b /no/such bob@server; echo $?
printf 'nosuch command\n' | sftp -b - bob@server; echo $?
printf 'cd nowhere\npwd\n' | sftp bob@server; echo $?
printf 'get\nput\nput nothing\nls nothing\nlcd /nothing\nchmod 9 x\nchown x x\n' | sftp bob@server
echo $?
printf 'bye\npwd\n' | sftp -b - bob@server; echo $?
ls
"#,
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
        client: r#"
mkdir -p t/d
echo a >t/a
echo b >t/d/b
chmod 751 t/d
chmod 640 t/a
lftp -c 'set sftp:auto-confirm no; open sftp://bob:@server; mirror -R t in/t; mirror in/t back; ls in; rm -r in/t/d' |
    sed 's/ [A-Z][a-z][a-z] .* / /'; echo $?
diff -r t back; echo $?
"#,
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
        client: r#"
mkdir m
sshfs bob@server:/in m -o idmap=user || exit 9
cd m
mkdir d
echo a >d/a
mv d/a b
ln -s b l
cat l
chmod 700 b
echo more >>b
truncate -s 3 b
ls -1
stat -c '%A %U %s' b
cp b c
mv c b
rm l
cd
fusermount3 -u m; echo $?
"#,
        look: "tree /srv",
        ..RECIPE
    }
    .run();
}

/// `sftp` by its flags and less usual commands, in batches.
///
/// Covers: sftp -R; sftp -B; sftp -l; sftp -P; sftp -f; sftp -r; sftp -a
#[test]
fn sftp_by_flags_and_rarer_commands() {
    Recipe {
        config: "Host *\n  User bob\n",
        client: r#"
head -c 700000 /dev/urandom >f
mkdir -p d/e
echo x >d/e/x
run() { echo "== $*"; sftp -q -b - "$@" server; echo $?; }
run -R 1 -B 1000 <<'B'
put f g
get g h
B
cmp f h
run -l 8000 -P 22 -C -f <<'B'
put f g2
B
run -r <<'B'
put d up
get up down
ls -1R up
B
head -c 300000 f >part
run -a <<'B'
get g part
B
cmp f part
run <<'B'
-mkdir a
-mkdir a
@pwd
-@rm nosuch
lmkdir l
lcd l
lpwd
!echo shell
lls
cd a
pwd
ln -s ../g s
symlink ../g s2
ls -l nosuch
B
run <<'B'
cd a
ls -1
reput ../f x
-rename s t
-chmod 600 t
-ls -1a
-df -h .
-copy t u
-cp t u
-rm *
-rmdir ../a
cd ..
-ls a
version
-help nonsense
-nonsense
-get
-put nosuch
-get nosuch*
mkdir 'two words'
put f 'two words/f'
ls -1 "two words"
rm two\ words/f
rmdir 'two words'
# comment

   ls -1 g
bye
ls -1
B
sftp -q server:g i </dev/null; echo $?
cmp f i
sftp -q sftp://bob@server:22/g j; echo $?
cmp f j
sftp -q server:nosuch k; echo $?
sftp -q server:up/e </dev/null; echo $?
sftp -b nosuch server; echo $?
sftp -b - -b - server </dev/null; echo $?
sftp -R x server; echo $?
sftp -B 0 server 2>&1 | head -2
sftp 2>&1 | head -1
"#,
        sees: &["== -a\n"],
        differs: &[("/a\": File exists", "/a\": Failure", "our server says why")],
        ends: Ends::Each,
        ..RECIPE
    }
    .run();
}

/// `lcd` to home directories, and names with tabs, which scripts read from listings.
#[test]
fn sftp_homes_of_this_host_and_tabs_in_names() {
    Recipe {
        setup: r#"
mkdir /home/bob/d
echo tab >"/home/bob/d/a$(printf '\t')b"
chown -R bob: /home/bob/d
"#,
        client: r#"
for path in '~' '' '~me' '~/.ssh' '~/none' '~root'; do
printf 'lcd /tmp\nlcd %s\nlpwd\n' "$path" | sftp -q bob@server; echo $?; done
mkdir '~x'
printf 'lcd ./~x\nlpwd\n' | sftp -q bob@server; echo $?
echo 'ls -1 d' | sftp -q -b - bob@server | tail -n +2 | while read -r name; do
printf 'get "%s" got\n' "$name" | sftp -q -b - bob@server; echo $?; done
cat got
"#,
        sees: &["Local working directory: /home/me\n", "directory: /home/me/.ssh\n", "\ntab\n"],
        ..RECIPE
    }
    .run();
}
