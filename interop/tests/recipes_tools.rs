//! Recipes for third-party tools that start `ssh`: backups, synchronisers, parallel shells and tunnels.

use lh_interop::recipe::{Ends, RECIPE, Recipe};

const PARAMIKO: &str = "/usr/lib/python3/dist-packages/paramiko/__init__.py";

/// rsnapshot pulls a host's files every night.
#[test]
fn rsnapshot_pulls_a_host() {
    Recipe {
        tools: &["rsnapshot", "rsync"],
        setup: r#"
mkdir -p /home/bob/data/sub
seq 5000 >/home/bob/data/a
echo b >/home/bob/data/sub/b
ln -s a /home/bob/data/l
chmod 600 /home/bob/data/a
chown -R bob: /home/bob
"#,
        client: r#"
printf 'config_version\t1.2\nsnapshot_root\t/home/me/snap/\ncmd_rsync\t/usr/bin/rsync\ncmd_ssh\t/usr/bin/ssh\nretain\talpha\t3\nno_create_root\t0\nlockfile\t/home/me/lock\nbackup\tbob@server:/home/bob/data/\tserver/\n' >conf
rsnapshot -c conf configtest
rsnapshot -c conf alpha; echo $?
rsnapshot -c conf alpha; echo $?
find snap -printf '%m %n %y %p\n' | grep -v ' d ' | sort -k4
"#,
        sees: &["600 2 f snap/alpha.0/server/home/bob/data/a"],
        ..RECIPE
    }
    .run();
}

/// restic with its own way to start `ssh -s sftp`.
#[test]
fn restic_keeps_a_repository_over_sftp() {
    Recipe {
        tools: &["restic"],
        client: r#"
export RESTIC_PASSWORD=x RESTIC_REPOSITORY=sftp:bob@server:repo
mkdir d
seq 20000 >d/a
restic -q init; echo $?
restic -q backup d; echo $?
restic -q check; echo $?
restic -q restore latest --target r
cmp d/a r/d/a; echo $?
restic -q forget latest --prune; echo $?
"#,
        sees: &["0\n0\n0\n0\n0\n"],
        ..RECIPE
    }
    .run();
}

/// rclone, whose library speaks SSH itself. Debian's (1.60) has no `--sftp-ssh`, which would call `ssh`.
#[test]
fn rclone_copies_and_checks_over_sftp() {
    Recipe {
        tools: &["rclone"],
        client: r#"
export RCLONE_LOG_LEVEL=ERROR
mkdir -p d/e
seq 20000 >d/a
echo b >d/e/b
r=':sftp,host=server,user=bob,key_file=/home/me/.ssh/id_ed25519'
rclone copy d "$r:up" 2>&1; echo $?
rclone check d "$r:up" 2>&1 | sed 's/^.*: //' | sort
rclone lsf -R "$r:up"
rclone sync "$r:up" back
diff -r d back; echo $?
rclone move "$r:up/a" "$r:moved"
rclone lsf -R "$r:" --exclude '.*/**' --exclude '.*' | sort
rclone purge "$r:up"; echo $?
"#,
        look: "tree /home/bob/moved",
        ends: Ends::Server,
        sees: &["a\ne/\ne/b\n"],
        ..RECIPE
    }
    .run();
}

/// unison in both directions.
#[test]
fn unison_synchronises_both_ways() {
    Recipe {
        tools: &["unison"],
        setup: "mkdir /home/bob/tree; echo theirs >/home/bob/tree/b; chown bob: /home/bob/tree",
        client: r#"
mkdir tree
seq 9999 >tree/a
unison tree ssh://bob@server/tree -batch -auto -silent -confirmbigdel=false; echo $?
cat tree/b
rm tree/a
unison tree ssh://bob@server/tree -batch -auto -silent -confirmbigdel=false; echo $?
ls tree
"#,
        look: "tree /home/bob/tree",
        sees: &["theirs\n0\nb\n"],
        ..RECIPE
    }
    .run();
}

/// autossh keeps a forward alive.
#[test]
fn autossh_brings_a_tunnel_back() {
    Recipe {
        tools: &["autossh"],
        client: r#"
export AUTOSSH_GATETIME=0 AUTOSSH_POLL=10
autossh -M 0 -f -N -L 7001:localhost:22 bob@server
eventually grep -q ':1B59 [0-9A-F:]* 0A' /proc/net/tcp
ssh -p 7001 -o HostKeyAlias=server bob@localhost id -un
old=$(pgrep -x -u me ssh)
kill -HUP $old
eventually ! kill -0 $old
eventually grep -q ':1B59 [0-9A-F:]* 0A' /proc/net/tcp
ssh -p 7001 -o HostKeyAlias=server bob@localhost id -un
pkill -x autossh; echo $?
"#,
        sees: &["bob\nbob\n0\n"],
        ..RECIPE
    }
    .run();
}

/// GNU parallel with hosts, files there and back.
#[test]
fn gnu_parallel_over_hosts() {
    Recipe {
        tools: &["parallel", "rsync"],
        client: r#"
mkdir -p .parallel
touch .parallel/will-cite
parallel -k -S 2/bob@server,2/bob@inner 'echo {} $(id -un); exit {}' ::: 0 1 2 3 </dev/null; echo $?
for n in 1 2 3; do seq $n >f$n; done
parallel -k -S bob@server --trc {}.n 'wc -l <{} >{}.n' ::: f1 f2 f3 </dev/null
cat f*.n
parallel --nonall -S bob@server,bob@bastion id -un </dev/null
"#,
        sees: &["0 bob\n1 bob\n2 bob\n3 bob\n3\n", "1\n2\n3\nbob\nbob\n"],
        ..RECIPE
    }
    .run();
}

/// pdsh and ClusterShell.
#[test]
fn pdsh_and_clustershell_over_hosts() {
    Recipe {
        tools: &["pdsh", "clush", "nodeset"],
        client: r#"
PDSH_RCMD_TYPE=ssh pdsh -l bob -w server,bastion,inner 'id -un; exit 3' 2>&1 | sort
PDSH_RCMD_TYPE=ssh pdsh -S -l bob -w server,inner 'exit 4' 2>/dev/null; echo $?
clush -l bob -w server,bastion,inner -bS 'id -un; exit 2' 2>/dev/null; echo $?
echo w >f
clush -q -l bob -w server --copy f --dest /tmp/copied; echo $?
"#,
        look: "cat /tmp/copied",
        sees: &["server: bob\n"],
        ..RECIPE
    }
    .run();
}

/// git-annex moves content to a bare repository.
#[test]
fn git_annex_moves_content() {
    Recipe {
        tools: &["git", "git-annex", "rsync"],
        client: r#"
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@x GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@x
ssh bob@server 'git config --global user.name b; git config --global user.email b@x; git init -q --bare r.git; cd r.git; git annex init -q there'
git init -q -b main w
cd w
git annex init -q here
seq 30000 >big
git annex add -q big
git commit -qm one
git remote add o bob@server:r.git
git push -q o main git-annex
git annex sync -q >/dev/null 2>&1
git annex copy -q --to o big; echo $?
git annex drop -q big; echo $?
git annex get -q --from o big; echo $?
wc -l <big
"#,
        sees: &["0\n0\n0\n30000\n"],
        ..RECIPE
    }
    .run();
}

/// sshuttle's start: its server half is fed to a remote Python.
#[test]
fn python_fed_to_a_remote_interpreter() {
    Recipe {
        tools: &["python3", "rsync", "git"],
        client: r#"
printf 'import sys\nprint("py", sys.stdin.readline().strip())\n' |
    ssh bob@server "python3 -c 'import sys; exec(sys.stdin.read())'"; echo $?
tar cf - .ssh/known_hosts | ssh bob@server 'tar tf -'
ssh bob@server 'tar cf - .ssh' | tar tf - | sort
mkdir t
seq 9999 >t/a
rsync -az --partial --info=stats0 t/ bob@server:t/; echo $?
rsync -a --checksum --dry-run --itemize-changes t/ bob@server:t/
rsync -a bob@server:t/ :u/ 2>&1 | tail -1 | cut -c1-20
dd if=/dev/zero bs=64k count=50 2>/dev/null | ssh -c aes128-ctr bob@server 'wc -c'
"#,
        sees: &["3276800"],
        ..RECIPE
    }
    .run();
}

/// mosh logs in by `ssh` through its own proxy program, and goes on over UDP.
#[test]
fn mosh_starts_its_server_by_ssh() {
    Recipe {
        tools: &["mosh", "script"],
        client: r#"
for ip in proxy remote; do
    timeout 100 script -qec "stty rows 24 cols 80; mosh --predict=never --no-init --experimental-remote-ip=$ip bob@server -- sh -c 'id -un >>ran; stty size >>ran; echo MOSH-CO''NNECTED'" /dev/null </dev/null |
        grep -ao MOSH-CONNECTED | head -1
done
timeout 100 script -qec 'stty rows 30 cols 90; mosh --no-init --ssh="ssh -o BatchMode=yes -p 22" bob@server -- sh -c "stty size >>ran"' /dev/null </dev/null >/dev/null
echo $?
ssh bob@server cat ran
"#,
        look: "eventually ! pgrep mosh-server; pgrep -c mosh-server",
        sees: &["MOSH-CONNECTED\nMOSH-CONNECTED\n0\nbob\n", "30 90\n"],
        ..RECIPE
    }
    .run();
}

/// sshuttle takes a network's connections and carries them over one session to a server in another network.
#[test]
fn sshuttle_carries_a_network() {
    Recipe {
        tools: &["sshuttle", "iptables", "python3", "curl"],
        setup: r#"
mkdir -p /srv/web /run/netns
echo page >/srv/web/p
ip netns add far
ip link add near type veth peer name far netns far
ip addr add 10.77.0.1/24 dev near
ip link set near up
ip route add default via 10.77.0.9
ip netns exec far ip addr add 10.77.0.2/24 dev far
ip netns exec far ip link set far up
ip netns exec far ip link set lo up
ip netns exec far ip addr add 10.78.0.1/32 dev lo
(cd /srv/web; ip netns exec far setsid python3 -m http.server 8000 --bind 10.78.0.1 >/dev/null 2>&1 &)
started=yes
/usr/sbin/sshd -E /var/log/sshd.log -o ListenAddress=127.0.0.1
ip netns exec far /usr/sbin/sshd -o PidFile=/run/far.pid -E /var/log/sshd-far.log
listening 22
mkdir -p /root/.ssh
cp /home/me/.ssh/id_ed25519 /root/.ssh
sed 's/^[^ ]* /10.77.0.2 /' /home/me/.ssh/known_hosts >/root/.ssh/known_hosts
chmod 700 /root/.ssh
chmod 600 /root/.ssh/id_ed25519
"#,
        look: r#"
curl -s -o /dev/null --max-time 1 http://10.78.0.1:8000/p; echo $?
sshuttle --method nat --python /usr/bin/python3 -r bob@10.77.0.2 10.78.0.0/24 -D --pidfile /run/sshuttle.pid
echo $?
for i in {1..100}; do
    curl -s -o /dev/null --max-time 5 http://10.78.0.1:8000/p && break
    sleep 0.1
done
for n in 1 2 3; do curl -s --max-time 20 http://10.78.0.1:8000/p; echo $?; done
kill $(cat /run/sshuttle.pid)
eventually ! sh -c 'iptables -t nat -S | grep -q sshuttle'
iptables -t nat -S | grep -c sshuttle
"#,
        sees: &["page\n0\npage\n0\npage\n0\n0\n"],
        ..RECIPE
    }
    .run();
}

/// duplicity: by `sftp` and `ssh` at a pseudo-terminal, by paramiko and by rsync.
#[test]
fn duplicity_backs_up_and_restores() {
    Recipe {
        tools: &["duplicity", "rsync", "/usr/lib/python3/dist-packages/pexpect/__init__.py", PARAMIKO],
        client: r#"
mkdir d
seq 30000 >d/a
chmod 640 d/a
ln -s a d/l
ssh bob@server mkdir three
for u in pexpect+sftp://bob@server/one sftp://bob@server/two rsync://bob@server/three; do
    rm -rf .cache r
    duplicity full -v2 --no-print-statistics --no-encryption d $u
    echo more >>d/a
    duplicity incr -v2 --no-print-statistics --no-encryption d $u; echo $?
    duplicity verify -v2 --no-encryption $u d; echo $?
    duplicity restore -v2 --no-encryption $u r
    diff -r d r; echo $?
done
ssh bob@server 'ls one | wc -l'
"#,
        sees: &["0\n0\n0\n0\n0\n0\n0\n0\n0\n"],
        ..RECIPE
    }
    .run();
}

/// rdiff-backup starts itself at the far side.
#[test]
fn rdiff_backup_keeps_increments() {
    Recipe {
        tools: &["rdiff-backup"],
        client: r#"
mkdir d
seq 30000 >d/a
ln -s a d/l
rdiff-backup -v2 backup d bob@server::back; echo $?
echo more >>d/a
sleep 1.1
rdiff-backup -v2 backup d bob@server::back; echo $?
rdiff-backup verify bob@server::back >/dev/null 2>&1; echo $?
rdiff-backup restore --at 1B bob@server::back r; echo $?
wc -l <r/a
rdiff-backup restore bob@server::back r2
diff -r d r2; echo $?
"#,
        sees: &["0\n0\n0\n0\n30000\n0\n"],
        ..RECIPE
    }
    .run();
}

/// fsspec's SFTP file system, which data tools open `sftp://` addresses with.
#[test]
fn fsspec_opens_remote_files() {
    Recipe {
        tools: &["/usr/lib/python3/dist-packages/fsspec/__init__.py", PARAMIKO],
        client: r#"
cat >t.py <<'E'
import fsspec, hashlib
fs = fsspec.filesystem('sftp', host='server', username='bob', key_filename='/home/me/.ssh/id_ed25519')
fs.mkdirs('/home/bob/cache/files/md5', exist_ok=True)
data = bytes(range(256)) * 4096
with fs.open('/home/bob/cache/tmp', 'wb') as f: f.write(data)
name = hashlib.md5(data).hexdigest()
fs.mv('/home/bob/cache/tmp', '/home/bob/cache/files/md5/' + name)
print(fs.find('/home/bob/cache'))
with fs.open('/home/bob/cache/files/md5/' + name, 'rb') as f:
    f.seek(512 * 1024); print(f.read(4)); f.seek(-3, 2); print(f.read())
open('local', 'wb').write(data); fs.put('local', '/home/bob/put'); fs.get('/home/bob/put', 'back'); print(open('back', 'rb').read() == data)
print(fs.info('/home/bob/put')['size'], fs.exists('/home/bob/none'), fs.isdir('/home/bob/cache')); fs.rm('/home/bob/cache', recursive=True); print(fs.exists('/home/bob/cache'))
with fsspec.open('sftp://bob@server/home/bob/put', 'rb', key_filename='/home/me/.ssh/id_ed25519') as f: print(len(f.read()))
E
/usr/bin/python3 t.py; echo $?
"#,
        ends: Ends::Server,
        sees: &["True\n1048576 False True\nFalse\n1048576\n0\n"],
        ..RECIPE
    }
    .run();
}

/// `ssh-copy-id` puts keys where they are not yet, by command and by SFTP.
#[test]
fn ssh_copy_id_adds_missing_keys() {
    Recipe {
        tools: &["ssh-copy-id", "sshpass"],
        setup: "account new 2500; rm -r /home/new/.ssh; account sub 2501; rm -r /home/sub/.ssh",
        client: r#"
export SSHPASS='correct horse battery'
for n in 1 2; do
    sshpass -e ssh-copy-id -i .ssh/id_ed25519.pub new@server 2>&1 | sed 's/^.*INFO: //'
done
ssh -o BatchMode=yes new@server 'id -un; stat -c "%a %n" .ssh .ssh/*; wc -l <.ssh/authorized_keys'
sshpass -e ssh-copy-id -s -i .ssh/id_ed25519.pub sub@server >/dev/null 2>&1
ssh -o BatchMode=yes sub@server 'stat -c "%a %n" .ssh .ssh/*'
"#,
        pam: true,
        sees: &["Number of key(s) added: 1", "new\n700 .ssh\n"],
        ..RECIPE
    }
    .run();
}

/// An agent for tmux: `~/.ssh/rc` keeps a link of a fixed name, which the next login renews.
#[test]
fn agents_in_tmux_by_a_link() {
    Recipe {
        tools: &["tmux"],
        setup: r#"
printf 'test -z "$SSH_AUTH_SOCK" || ln -sf "$SSH_AUTH_SOCK" ~/.ssh/sock\n' >/home/bob/.ssh/rc
chown bob: /home/bob/.ssh/rc
"#,
        client: r#"
eval $(ssh-agent) >/dev/null
ssh-add -q .ssh/id_ed25519
ssh -A bob@server 'SSH_AUTH_SOCK=~/.ssh/sock tmux new-session -d -s work; ssh-add -l | cut -d" " -f1,4; sleep 0.2'
ssh bob@server 'eventually ! test -S ~/.ssh/sock; SSH_AUTH_SOCK=~/.ssh/sock ssh-add -l; echo $?'
ssh -A bob@server 'tmux send-keys -t work "ssh-add -l | wc -l >keys; ssh-add -T ~/.ssh/authorized_keys; echo \$? >signed; tmux wait-for -S done" Enter; tmux wait-for done; cat keys signed; tmux kill-server'
ssh-agent -k >/dev/null
"#,
        sees: &["1\n0\n"],
        ..RECIPE
    }
    .run();
}

/// The start of an editor's remote server: a script on standard input, a marker, and a dynamic forward on the
/// same session.
#[test]
fn remote_editor_starts_its_server() {
    Recipe {
        tools: &["curl", "python3"],
        setup: "mkdir /srv/web; echo page >/srv/web/p",
        client: r#"
touch out
cat >boot <<'E'
mkdir -p ~/.editor/bin; cd /srv/web
/usr/bin/python3 -c 'import http.server as h, sys
s = h.ThreadingHTTPServer(("127.0.0.1", 0), h.SimpleHTTPRequestHandler)
print("listeningOn==%d==" % s.server_port, flush=True)
s.serve_forever()' 2>/dev/null &
echo "osReleaseId==$(uname -s)=="; echo "uuid: running"; wait
E
ssh -v -T -D 7100 -o ConnectTimeout=15 bob@server bash <boot >out 2>err &
editing=$!
eventually grep -q listeningOn out
port=$(sed -n 's/^listeningOn==\(.*\)==/\1/p' out)
for n in 1 2 3; do
    curl -s --max-time 20 --socks5-hostname localhost:7100 http://localhost:$port/p
done
grep '^osRel\|^uuid' out
grep -c '^debug1: Local connections to LOCALHOST:7100 forwarded to remote address socks:0' err
kill $editing
wait $editing; echo $?
"#,
        sees: &["page\npage\npage\nosReleaseId==Linux==\nuuid: running\n1\n"],
        ..RECIPE
    }
    .run();
}
