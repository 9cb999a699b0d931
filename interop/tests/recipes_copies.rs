//! Recipes for copies: names with special characters, targets with a trailing slash or behind links, and
//! programs that copy by ssh.

use lh_interop::recipe::{Ends, RECIPE, Recipe};

/// Names of 255 bytes, with spaces, quotes, line ends, escape sequences and bytes that are no UTF-8: by both
/// protocols, by rsync, one by one, and as patterns.
#[test]
fn names_of_every_kind_go_and_come_back() {
    Recipe {
        tools: &["rsync"],
        client: r#"mkdir n; cd n; x=$(printf 'x%.0s' {1..255}); u=$(printf '\303\244%.0s' {1..127})
for f in "$x" "$u" 'sp ace' $'new\nline' $'bell\007esc\033[31m' $'\377\376bad' -dash '*star' '[br]' 'q"uote' "q'uote" 'back\slash' 'dollar$x' '~tilde' ' lead' 'trail ' '#hash' @at %25 'a;b' ...; do echo "$f" >"$f"; done
cd; scp -rq n bob@server:got; scp -rq bob@server:got back; diff -r n back && echo same; rm n/*line; scp -O -rq n bob@server:gotO; scp -O -rq bob@server:gotO backO; diff -r n backO && echo sameO
rsync -a n/ bob@server:rs/; rsync -a bob@server:rs/ rs; diff -r n rs && echo samers
ssh bob@server mkdir one; for f in n/*; do scp -q "./$f" bob@server:one/ || echo "bad $f"; done; ssh bob@server 'ls -b one | wc -l'
get() { scp -q "bob@server:one/$1" "$2"; echo "$2 $?"; }; get 'sp ace' x1; get 'sp\ ace' x2; get '\*star' x3; get '*star' x4; get '\[br\]' x5; get '[br]' x6; get 'dollar$x' x7; get 'back\\slash' x8; get $'\377*' x9
printf '%s\n' 'get "one/q\"uote" y1' 'get one/q\"uote y2' 'get one/sp\ ace y3' 'get "one/*star" y4' 'get one/\*star y5' 'get one/-dash y6' 'put n/*ace' 'put n/\[br]' 'ls -1' | sftp -q -b - bob@server; cat x? y?"#,
        sees: &["same\nsameO\nsamers\n19\n", "x6 0\n", "sftp> get one/-dash y6\n"],
        ..RECIPE
    }
    .run();
}

/// Files into directories with and without a trailing slash, into files, and onto places that are not there.
#[test]
fn targets_with_and_without_a_trailing_slash() {
    Recipe {
        setup: r#"
cd /home/bob
mkdir -p t/sub e
echo 1 >t/a
echo 2 >t/sub/b
ln -s a t/l
chmod 640 t/a
chmod 2750 t/sub
touch -d '2001-02-03 04:05:06' t/a
chown -R bob: t e
cd /
"#,
        client: r#"list() { find "$@" -printf '%p %y %m\n' | LC_ALL=C sort; }; try() { "$@" 2>/dev/null; echo "= $?"; }
scp -rq bob@server:t/ c1; mkdir c2 c4; scp -rq bob@server:t/ c2; scp -rq bob@server:t/. c3; scp -rq bob@server:t/. c4/; scp -rpq bob@server:t c5; list c?; stat -c %Y c5/a
scp -3 bob@server:t/a bob@bastion:e/three; scp -3rq bob@server:t bob@bastion:e/; scp -3p bob@server:t/a scp://bob@inner:22/e/four; ssh bob@server 'find e | LC_ALL=C sort; stat -c %Y e/four'
mkdir d; try scp -q bob@server:t d; try scp -q c1/a none/; try scp -q c1/a none/x; try scp -q bob@server:t/a bob@server:t/sub/b d/; try scp -q c1/a c1 bob@server:e/q; try scp -qr c1/a c1/sub bob@server:e/none/
try scp -q . bob@server:e; try scp -qT bob@server:'t/{a,sub/b}' d; try scp -q 'bob@server:~/t/a' d/tilde; try scp -q 'bob@server:~bob/t/a' d/tb; try scp -q bob@server: d; try scp -q bob@server:.none* d; try scp -q 'bob@server:t/[a]' d/glob
echo x >c:olon; try scp -q ./c:olon bob@server:e; try scp -q bob@server:e/c:olon ./d; try scp -q c1/a bob@server:e/three/; try scp -q c1/a bob@server:t/sub; list d; ssh bob@server 'find e t | LC_ALL=C sort'"#,
        sees: &["c4/sub/b f 644\n", "e/none/sub/b\n", "981173106\n"],
        ..RECIPE
    }
    .run();
}

/// The line that ends a failed upload of one source: `failed to upload file …` or `… directory …`, with the
/// words of the command line. None follows a source that does not exist, or a download.
#[test]
fn failed_upload_of_one_source_ends_with_its_line() {
    Recipe {
        client: r#"echo x >f; mkdir -p t/sub; echo y >t/sub/g; ssh bob@server mkdir -p d/f
last() { scp "$@" 2>&1 >/dev/null </dev/null | tail -n 1 | sed -n 's/^[a-z]*: \(failed to \)/\1/p'; echo "${PIPESTATUS[0]}"; }
last f bob@server:/none/x; last ./f bob@server:none/; last f bob@server:d; last f bob@server:/; last -q f bob@server:/none/x; last f bob@server:/proc/version
last -r t bob@server:/none/x; last -r t bob@server:/proc; last -r f bob@server:/none/x; last t bob@server:x; last -r t bob@server:/
last bob@server:f .; last bob@server:/none .; last f bob@server:ok; last -r t bob@server:ok2"#,
        sees: &["failed to upload file f to /none/x\n1\n", "failed to upload directory t to /none/x\n1\n"],
        ends: Ends::Client,
        ..RECIPE
    }
    .run();
}

/// A link in the place of the target: to nothing, to a directory, to a file. `scp -r` makes the directory
/// that a link is to lead to.
#[test]
fn targets_behind_symbolic_links() {
    Recipe {
        client: r#"
mkdir -p d/sub; echo a >d/a; echo b >d/sub/b
for copy in 'scp -qr d bob@server:L' 'scp -q d/a bob@server:L' 'echo put -r d L' 'echo put d/a L'; do
    for to in new ../bob/new no/where dir file L; do
        ssh bob@server "rm -rf new dir; mkdir dir; echo old >file; ln -sfn $to L"
        case $copy in
        echo*) $copy | sftp -qb - bob@server >/dev/null 2>&1; status=${PIPESTATUS[1]} ;;
        *) $copy 2>/dev/null; status=$? ;;
        esac
        echo "== $copy, $to: $status"
        ssh bob@server 'find L new dir file no -printf "%p %y %l\n" 2>/dev/null | LC_ALL=C sort; cat file'
    done
done
"#,
        sees: &["== scp -qr d bob@server:L, new: 0\nL l new\ndir d \nfile f \nnew d \nnew/a f \n"],
        ends: Ends::Client,
        ..RECIPE
    }
    .run();
}

/// lftp's mirror in both directions, and its own commands.
#[test]
fn lftp_mirrors_trees_both_ways() {
    Recipe {
        tools: &["lftp"],
        setup: r#"
mkdir -p /home/bob/m/a/b
for n in 1 2 3 4 5; do echo $n >/home/bob/m/f$n; echo $n >"/home/bob/m/a/b/s $n"; done
ln -s f1 /home/bob/m/l
touch -d '2020-02-02 UTC' /home/bob/m/f2
chmod 640 /home/bob/m/f3
chown -R bob: /home/bob/m
"#,
        client: r#"
by() { lftp -c "set sftp:connect-program 'ssh -a -x'; set net:max-retries 1; open sftp://bob:@server; $1"; echo "= $?"; }
mkdir -p t/x; for n in 1 2 3; do echo $n >t/x/$n; done; ln -s 1 t/x/l
by 'mirror --parallel=3 m got'; find got -printf '%P %y %m %l\n' | LC_ALL=C sort; stat -c %Y got/f2
by 'mirror -R --parallel=2 t/x up'; rm t/x/3; by 'mirror -R --delete t/x up'
by 'pget -n 3 -c m/f1 -o part; put -c part -o again; mv again moved; chmod 600 moved; mkdir -p q/w; rmdir q/w; cls -1 m; find m'
ssh bob@server 'find up q moved -printf "%p %y %m %l\n" | LC_ALL=C sort'
"#,
        sees: &["a/b/s 5 f 644 \n", "1580601600\n", "moved f 600 \n"],
        ..RECIPE
    }
    .run();
}

/// sshfs by the options of its manuals.
#[test]
fn sshfs_by_its_options() {
    Recipe {
        tools: &["sshfs", "fusermount3"],
        setup: "mkdir /home/bob/d; echo one >/home/bob/d/f; ln -s f /home/bob/d/rel; chown -R bob: /home/bob/d",
        client: r#"
mkdir m
with() { sshfs bob@server:d m -o "$1"; echo "$1: $?"; }
with follow_symlinks,ServerAliveInterval=5; cat m/rel; cp /etc/services m/s; cmp m/s /etc/services; mkdir m/dd; mv m/s m/dd/s; truncate -s 100 m/dd/s; stat -c %s m/dd/s; fusermount3 -u m
with idmap=user,cache=no,direct_io,transform_symlinks; readlink m/rel; stat -c %U m/f; dd if=/dev/zero of=m/z bs=4k count=33 seek=7 status=none; stat -c %s m/z; rm m/z; ln m/f m/hard; echo $?; fusermount3 -u m
with ro,sshfs_sync; echo x >m/no; cat m/f; fusermount3 -u m
with disable_hardlink,max_conns=3; for n in 1 2 3 4; do (head -c 300000 /dev/urandom >m/r$n; sha256sum <m/r$n >r$n) & done; wait; touch -d '2001-01-01 UTC' m/f; chmod 600 m/f; stat -c '%a %Y' m/f; fusermount3 -u m
for n in 1 2 3 4; do ssh bob@server sha256sum "<d/r$n" | cmp - r$n && echo same; done
with kernel_cache,no_readahead; cat m/f; ls m; fusermount3 -u m
"#,
        sees: &["ServerAliveInterval=5: 0\none\n100\n", "600 978307200\nsame\nsame\nsame\nsame\n"],
        ..RECIPE
    }
    .run();
}
