//! Recipes for signatures, streams, foreign programs on both ends, and commands whose client disconnects.

use lh_interop::recipe::{Ends, RECIPE, Recipe};

/// Commits and tags signed by a key, by an agent's key, verified against a list of signers.
#[test]
fn git_signs_commits_and_tags_with_ssh_keys() {
    Recipe {
        tools: &["git"],
        client: r#"
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@x GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@x GIT_AUTHOR_DATE='2026-01-01T00:00:00Z' GIT_COMMITTER_DATE='2026-01-01T00:00:00Z'
key=$(cat .ssh/id_ed25519.pub)
git init -q -b main w
cd w
git config gpg.format ssh
git config user.signingkey /home/me/.ssh/id_ed25519.pub
git config gpg.ssh.allowedSignersFile /home/me/signers
echo "a@x namespaces=\"git\" $key" >~/signers
echo 1 >f
git add f
git commit -qS -m one; echo $?
git verify-commit HEAD; echo $?
git log --format='%G? %GS %GK' -1
git tag -s -m t v1
git tag -v v1 2>&1 | head -1
echo "a@x valid-before=\"20200101\" $key" >~/signers
git verify-commit HEAD; echo $?
: >~/signers
git verify-commit HEAD; echo $?
eval $(ssh-agent) >/dev/null
ssh-add -q ~/.ssh/id_ed25519
mv ~/.ssh/id_ed25519 ~/away
echo "a@x $key" >~/signers
echo 2 >f
git commit -qaS -m two
git log --format='%G?' -1
git config user.signingkey "key::$key"
echo 3 >f
git commit -qaS -m three
git log --format='%G?' -1
ssh-agent -k >/dev/null
"#,
        ends: Ends::Client,
        sees: &["0\n0\nG a@x SHA256:", "1\n1\nG\nG\n"],
        ..RECIPE
    }
    .run();
}

/// Signatures of files, with the wrong name, purpose and contents.
#[test]
fn files_signed_and_checked_by_keygen() {
    Recipe {
        client: r#"
echo text >f
echo "a@x $(cat .ssh/id_ed25519.pub)" >signers
k='-f signers -n file -s f.sig'
ssh-keygen -Y sign -f .ssh/id_ed25519 -n file f; echo $?
ssh-keygen -Y verify $k -I a@x <f; echo $?
ssh-keygen -Y verify -f signers -n other -s f.sig -I a@x <f; echo $?
ssh-keygen -Y verify $k -I b@x <f; echo $?
echo x | ssh-keygen -Y verify $k -I a@x; echo $?
ssh-keygen -Y find-principals -f signers -s f.sig
ssh-keygen -Y match-principals -f signers -I a@x
ssh-keygen -Y check-novalidate -n file -s f.sig <f; echo $?
ssh-keygen -Y sign -f .ssh/id_ed25519 -n file f </dev/null; echo $?
"#,
        ends: Ends::Client,
        sees: &["Good \"file\" signature for a@x"],
        ..RECIPE
    }
    .run();
}

/// tar, cpio, zstd and dd over pipes, as backup programs use them; commands that fail in the middle.
#[test]
fn archives_and_images_through_pipes() {
    Recipe {
        tools: &["cpio", "zstd"],
        setup: r#"
mkdir -p /home/bob/d/sub
seq 9999 >/home/bob/d/a
ln -s a /home/bob/d/l
ln /home/bob/d/a /home/bob/d/h
chmod 640 /home/bob/d/a
echo x >'/home/bob/d/sub/a b'
chown -R bob: /home/bob
"#,
        client: r#"
ssh -q -x -o BatchMode=yes -l bob server env LC_ALL=C tar -c -f - -C /home/bob d | tar xf -
echo ${PIPESTATUS[*]}
find d -printf '%m %n %y %P %l\n' | sort -k4
(cd d && find . -depth -print0 | cpio -0o -H newc --quiet) |
    ssh bob@server 'mkdir c && cd c && cpio -idmu --quiet && find . -printf "%m %n %y %P\n" | sort -k4'
echo ${PIPESTATUS[*]}
ssh bob@server 'tar -cf - --listed-incremental=snar d' | tar tf - | sort
ssh bob@server 'echo new >d/n; tar -cf - --listed-incremental=snar d' | tar tf - | sort
head -c 3000000 /dev/urandom >img
zstd -q -c img | ssh bob@server 'zstd -qdc >img; sha256sum <img' | cmp - <(sha256sum <img); echo $?
dd if=img bs=64k 2>/dev/null |
    ssh -C bob@server 'dd of=img2 bs=1M iflag=fullblock 2>/dev/null; sha256sum <img2' |
    cmp - <(sha256sum <img); echo $?
ssh bob@server 'dd if=img2 bs=4k skip=100 count=10 2>/dev/null' |
    cmp - <(dd if=img bs=4k skip=100 count=10 2>/dev/null); echo $?
ssh bob@server 'cat >/dev/full' <img; echo $?
split -b 700k --filter='ssh -n bob@server true; ssh bob@server "cat >part.$FILE"' img
ssh bob@server 'cat part.* | sha256sum' | cmp - <(sha256sum <img); echo $?
"#,
        sees: &["640 2 f a\n", "0\n0\n0\n1\n0\n"],
        ..RECIPE
    }
    .run();
}

/// Hooks, push options, submodules, shallow clones and archives of a git host, with every spelling of its
/// address.
#[test]
fn git_host_with_hooks_and_submodules() {
    Recipe {
        tools: &["git"],
        client: r##"
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@x GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@x GIT_AUTHOR_DATE='2026-01-01T00:00:00Z' GIT_COMMITTER_DATE='2026-01-01T00:00:00Z'
git config --global init.defaultBranch main
ssh bob@server 'git init -q --bare r.git -b main; git init -q --bare s.git -b main; git -C r.git config receive.advertisePushOptions true; printf "#!/bin/sh\nread a b c; echo got \$c \$GIT_PUSH_OPTION_0; echo err >&2; test \$c != refs/heads/no\n" >r.git/hooks/pre-receive; chmod +x r.git/hooks/pre-receive'
git init -q s
cd s
echo s >s
git add s
git commit -qm s
git push -q bob@server:s.git main
cd ..
git init -q w
cd w
git submodule -q add ssh://bob@server/~/s.git sub
seq 5000 >f
git add .
git commit -qm one
git remote add o ssh://bob@server:22/home/bob/r.git
git push -q -o opt1 o main; echo $?
git push -q o main:no; echo $?
cd ..
git clone -q --recurse-submodules --depth 1 ssh://bob@server/~/r.git c
cat c/sub/s
git -C c log --oneline | wc -l
git -C w archive --remote=bob@server:r.git main f | tar tf -
git ls-remote bob@server:none.git; echo $?
GIT_SSH_COMMAND='ssh -o LogLevel=ERROR -p 22' git -C w fetch -q o; echo $?
GIT_SSH=/usr/bin/ssh GIT_SSH_VARIANT=ssh git -C w fetch -q o; echo $?
git clone -q bob@server:r.git z
git -C z fsck; echo $?
"##,
        sees: &["0\n1\ns\n1\nf\n128\n0\n0\n0\n", "remote: got refs/heads/main opt1"],
        ..RECIPE
    }
    .run();
}

/// A repository, a database and ordinary work in a mounted home.
#[test]
fn sshfs_holds_a_repository_and_a_database() {
    Recipe {
        tools: &["sshfs", "fusermount3", "git", "sqlite3"],
        client: r#"
mkdir m
sshfs bob@server: m -o reconnect,ServerAliveInterval=5,idmap=user; echo $?
cd m
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@x GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@x
git init -q -b main g
cd g
for i in {1..40}; do echo $i >f$i; done
git add .
git commit -qm one
git gc -q
git fsck
git status --short | wc -l
cd ..
sqlite3 db 'pragma journal_mode=delete; create table t(a); insert into t values(1),(2); begin; update t set a=a+1; commit; select sum(a) from t;'
seq 100000 >big
sed -i s/9/N/g big
md5sum <big
truncate -s 1000 big
wc -c <big
echo more >>big
tail -c 5 big
mkdir -p a/b/c
mv a z
find z | sort
ln -s big l
readlink l
echo 1 >p
echo 2 >q
mv p q
cat q
rm -r g z
chmod 600 q
stat -c '%a %U' q
cd
fusermount3 -u m; echo $?
mkdir m2
sshfs -o ro,direct_io,max_conns=3,compression=yes bob@server:/home/bob m2 && cat m2/q
touch m2/q; echo $?
fusermount3 -u m2
"#,
        look: "tree /home/bob | grep -v '/\\.ssh'",
        sees: &["delete\n5\n", "600 me\n0\n1\n1\n"],
        ..RECIPE
    }
    .run();
}

/// What becomes of a remote command when its client is told to end, is killed, or has a terminal.
#[test]
fn commands_whose_client_goes_away() {
    Recipe {
        client: r#"
begun() { eventually pgrep -u bob -f "^$1$"; }
ended() { eventually ! pgrep -u bob -f "^$1$" && echo gone; }
ssh bob@server 'exec sleep 901' &
p=$!
begun 'sleep 901'
kill -TERM $p
wait $p; echo $?
sleep 3
pgrep -u bob -f '^sleep 901$' >/dev/null && echo stays
ssh bob@server 'pkill sleep'
for signal in TERM KILL; do
    # Between our programs a session would wait for a client that was killed (docs/server.md).
    if [ $signal = KILL ]; then set -- -o IgnoreUnknown=Resume -o Resume=no; fi
    ssh "$@" -tt bob@server 'exec sleep 902' >/dev/null 2>&1 &
    p=$!
    begun 'sleep 902'
    kill -$signal $p
    wait $p 2>/dev/null; echo $?
    ended 'sleep 902'
done
ssh "$@" bob@server 'cat' </dev/zero >/dev/null &
p=$!
begun cat
kill -KILL $p
wait $p 2>/dev/null
ended cat
timeout 2 ssh bob@server 'sleep 904; echo no'; echo $?
ssh bob@server 'pkill sleep'
ssh bob@server 'setsid sleep 906 >/dev/null 2>&1 & disown; echo started'
ssh bob@server 'eventually pgrep -f "^sleep 906"; pgrep -c -f "^sleep 906"; pkill sleep'
"#,
        sees: &["255\nstays\n255\ngone\n137\ngone\ngone\n124\nstarted\n1\n"],
        ..RECIPE
    }
    .run();
}

/// rsync's daemon mode, lists of files, odd paths and failures by `ssh`.
#[test]
fn rsync_modules_lists_and_failures() {
    Recipe {
        tools: &["rsync"],
        setup: r#"
mkdir -p /home/bob/mod/sub
seq 3000 >/home/bob/mod/a
echo b >'/home/bob/mod/sub/b c'
printf 'use chroot = no\n[m]\npath = /home/bob/mod\nread only = no\n' >/home/bob/rsyncd.conf
chown -R bob: /home/bob
"#,
        client: r#"
rsync -e ssh bob@server::
rsync -a -e 'ssh -l bob' server::m/ got/; echo $?
find got -type f | sort
echo new >got/n
rsync -a -e 'ssh -l bob' got/ server::m/; echo $?
ssh bob@server 'printf "a\0sub/b c\0" >list'
rsync -0a --files-from=:list bob@server:mod got2; echo $?
find got2 -type f | sort
printf 'n\na\n' | rsync -a --files-from=- got/ bob@server:up/
ssh bob@server 'ls up'
rsync -a --rsync-path='nice -n 5 rsync' -e 'ssh -o "User bob" -o LogLevel=ERROR' got/ 'server:with space/'
echo $?
rsync -a -s bob@server:'with space/sub/b c' .
cat 'b c'
rsync -aXH --numeric-ids --inplace --no-whole-file --block-size=700 got/ bob@server:mod/; echo $?
ssh bob@server 'cd mod; find . -type f | sort | xargs -d "\n" cat | md5sum'
for i in {1..5}; do
    rsync -a --rsync-path=/nope bob@server:a . 2>&1 | grep -c 'nope: No such file'
done
rsync -a bob@server:none . 2>/dev/null; echo $?
"#,
        sees: &["0\ngot/a\ngot/sub/b c\n0\n", "1\n1\n1\n1\n1\n23\n"],
        ..RECIPE
    }
    .run();
}

/// PuTTY's programs: commands, copies by both protocols, a batch and a forward.
#[test]
fn putty_s_programs_with_a_converted_key() {
    Recipe {
        tools: &["plink", "pscp", "psftp", "puttygen"],
        client: r#"
export HOME=/home/me
puttygen .ssh/id_ed25519 -o k.ppk -O private
fp=$(ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub | cut -d' ' -f2)
o="-batch -i k.ppk -hostkey $fp"
plink $o bob@server 'echo hi; exit 3'; echo $?
mkdir -p t/s
for n in 0 1 32768 100000 3000000; do head -c $n /dev/zero | tr '\0' q >t/f$n; done
echo x >'t/s/a b'
for way in -scp -sftp; do
    ssh bob@server 'rm -rf up; mkdir up'
    pscp -q $o $way -r t bob@server:up; echo $?
    rm -rf back
    mkdir back
    pscp -q $o $way -r bob@server:up/t back; echo $?
    diff -r t back/t && echo same
done
printf 'pwd\nput t/f1 one\nmv one two\nget two two\nmkdir d\nrmdir d\nchmod 600 two\nmput t/f*\nreput t/f100000 f100000\ndel two\nbye\n' >b
psftp $o bob@server -b b; echo $?
plink $o -T bob@server 'cat' <t/f3000000 | cmp - t/f3000000; echo $?
plink $o bob@server -nc localhost:22 </dev/null | head -c 4; echo
plink -batch -hostkey $fp -i k.ppk nobodyx@server true 2>&1 | tail -1
"#,
        look: "find /home/bob/up -type f | sort | xargs -d '\\n' md5sum",
        ends: Ends::Server,
        sees: &["hi\n3\n0\n0\nsame\n0\n0\nsame\n"],
        ..RECIPE
    }
    .run();
}

/// Shells, copies and forwards of many programs over one connection, whose master is then stopped and killed.
#[test]
fn programs_share_a_master_that_is_stopped() {
    Recipe {
        tools: &["rsync"],
        server: "MaxSessions 40",
        config: r#"
Host m
 HostName server
 User bob
 ControlMaster auto
 ControlPath ~/.ssh/cm-%r@%h:%p
 ControlPersist 60
"#,
        client: r#"
mkdir t
for i in {1..30}; do seq $i >t/f$i; done
ssh m true </dev/null >/dev/null 2>&1
ls -l .ssh/cm-* | cut -c1-10
for i in {1..8}; do
    (scp -q -r t m:t$i; rsync -a t/ m:r$i/; echo "put t/f1 s$i" | sftp -q -b - m >/dev/null; ssh m "cat t$i/f* r$i/f* s$i | md5sum" >sum$i) &
done
wait
cat sum* | sort | uniq -c
ssh -O forward -L 7411:localhost:22 m
head -c 4 </dev/tcp/127.0.0.1/7411; echo
ssh -O cancel -L 7411:localhost:22 m
(: </dev/tcp/127.0.0.1/7411) 2>/dev/null || echo closed
for i in {1..12}; do ssh m "sleep 1; echo $i" >out$i & done
wait
cat out* | sort -n
ssh m 'exit 42'; echo $?
ssh -O stop m
ls .ssh | grep -c cm-
ssh -o ControlPath=none m 'echo alone'
touch stale
ssh -o ControlPath=~/stale m 'echo stale'
ssh -O check m 2>&1 | sed 's/:.*//'
"#,
        sees: &["srw-------\n      8 ", "SSH-\nclosed\n1\n2\n", "12\n42\n0\nalone\nstale\n"],
        ..RECIPE
    }
    .run();
}
