//! Recipes for Python's tools: pssh, which starts `ssh` for many hosts, and the layer of DVC that speaks SSH.

use lh_interop::recipe::{Ends, RECIPE, Recipe};

/// pssh's programs, which start ssh, scp and rsync for each of a list of hosts.
#[test]
fn pssh_runs_and_copies_on_many_hosts() {
    Recipe {
        tools: &[
            "parallel-ssh",
            "parallel-scp",
            "parallel-rsync",
            "parallel-slurp",
            "parallel-nuke",
            "rsync",
        ],
        client: r#"
printf 'bob@server\nbastion bob\ninner:22 bob\n' >hosts
# The lines end in the order of the hosts' answers, and begin with the time of day.
shown() { sed 's/ [0-9:]* \[/ T [/; s/^\[[0-9]*\] /[N] /; s/^\[N\] [0-9:]* /[N] /' | sort; }
parallel-ssh -h hosts -i 'id -un; echo err >&2; exit 3' 2>&1 | shown
parallel-ssh -h hosts -o out -e err -t 30 -p 2 'hostname; uname >&2' | shown
sort out/*; sort err/*
seq 3 | parallel-ssh -h hosts -I -P 'wc -l' 2>&1 | shown
parallel-ssh -H bob@server -x '-o BatchMode=yes -q' -O LogLevel=ERROR -i true | shown
parallel-ssh -H bob@none.invalid -H carl@server -t 30 -i true 2>&1 | shown
# Whether it has seen the end of the killed client before it reports depends on the load.
parallel-ssh -H bob@server -t 1 -i 'sleep 30' 2>&1 | sed 's/, Killed by signal 9//' | shown
mkdir d
seq 2000 >d/a
parallel-scp -p 1 -r -h hosts d /home/bob/copied | shown
parallel-rsync -p 1 -a -h hosts d/ /home/bob/synced/ | shown
parallel-slurp -h hosts -L back -r /home/bob/copied here | shown
find back -type f -exec cksum {} + | sort -k3
parallel-slurp -h hosts -L back /home/bob/nosuch here 2>&1 | shown
parallel-nuke -h hosts nosuchprogram | shown
"#,
        look: "tree /home/bob/copied /home/bob/synced",
        sees: &["[FAILURE] bob@bastion Exited with error code 3\n", "back/inner:22/here/a\n"],
        ..RECIPE
    }
    .run();
}

/// The file system that DVC (`dvc[ssh]`) and others of fsspec's users open `ssh://` remotes with: the package
/// `sshfs`, which is asyncssh's SFTP client. It copies many files at once over channels of one connection.
#[test]
fn sshfs_of_fsspec_moves_dvc_s_objects() {
    Recipe {
        fetched: &["python/bin/python"],
        client: r#"
cat >t.py <<'E'
import hashlib, os, sshfs
fs = sshfs.SSHFileSystem('server', username='bob', client_keys=['/home/me/.ssh/id_ed25519'],
    known_hosts='/home/me/.ssh/known_hosts')
top = '/home/bob/dvc/files/md5'
def names():
    return sorted(fs.find(top))
# A remote keeps each object under the digest of its content, in 256 directories.
os.mkdir('cache')
objects = {}
for number in range(60):
    data = b'%d\n' % number * (number * 40)
    digest = hashlib.md5(data).hexdigest()
    open('cache/' + digest, 'wb').write(data)
    objects[digest] = data
fs.makedirs(top, exist_ok=True)
print(fs.exists(top), fs.isdir(top), fs.info(top)['type'])
for digest in objects:
    fs.makedirs(f'{top}/{digest[:2]}', exist_ok=True)
paths = [(f'cache/{d}', f'{top}/{d[:2]}/{d[2:]}') for d in objects]
# An object goes beside its place first.
fs.put([here for here, there in paths], [there + '.tmp' for here, there in paths])
for here, there in paths:
    fs.mv(there + '.tmp', there)
print(len(names()), names()[:2])
fs.put([here for here, there in paths[:5]], [there for here, there in paths[:5]])
os.mkdir('back')
fs.get([there for here, there in paths], ['back/' + d for d in objects])
print(sum(open('back/' + d, 'rb').read() == data for d, data in objects.items()))
print(fs.checksum(paths[7][1]) is not None, fs.info(paths[7][1])['size'])
with fs.open(paths[9][1], 'rb') as file:
    file.seek(100)
    print(file.read(20))
with fs.open('/home/bob/written', 'wb') as file:
    file.write(b'x' * 300000)
print(fs.cat_file('/home/bob/written')[-3:], fs.size('/home/bob/written'))
for call in (lambda: fs.info('/home/bob/nosuch'), lambda: fs.rm_file('/nosuch'), lambda: fs.ls('/root')):
    try:
        print(call())
    except Exception as error:
        print(type(error).__name__)
fs.rm(top, recursive=True)
print(fs.exists(top))
E
# The environment's own interpreter may be one that only its owner can run.
PYTHONPATH=$(echo /opt/peers/python/lib/python3*/site-packages) timeout 120 python3 t.py; echo $?
"#,
        look: "tree /home/bob/dvc /home/bob/written",
        ends: Ends::Server,
        sees: &["True True directory\n60 ", "\n60\n", "False\n0\n"],
        ..RECIPE
    }
    .run();
}
