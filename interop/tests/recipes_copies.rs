//! Recipes for copies: names with special characters, and targets with a trailing slash.

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
