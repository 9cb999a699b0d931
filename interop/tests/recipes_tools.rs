//! Recipes for other people's tools that start `ssh`: backups, synchronisers, parallel shells and tunnels.

use lh_interop::recipe::{Ends, RECIPE, Recipe};

/// rsnapshot pulls a host's files every night.
#[test]
fn rsnapshot_pulls_a_host() {
    Recipe {
        tools: &["rsnapshot", "rsync"],
        setup: "mkdir -p /home/bob/data/sub; seq 5000 >/home/bob/data/a; echo b >/home/bob/data/sub/b; ln -s a /home/bob/data/l; chmod 600 /home/bob/data/a; chown -R bob: /home/bob",
        client: "printf 'config_version\\t1.2\\nsnapshot_root\\t/home/me/snap/\\ncmd_rsync\\t/usr/bin/rsync\\ncmd_ssh\\t/usr/bin/ssh\\nretain\\talpha\\t3\\nno_create_root\\t0\\nlockfile\\t/home/me/lock\\nbackup\\tbob@server:/home/bob/data/\\tserver/\\n' >conf\n\
                 rsnapshot -c conf configtest; rsnapshot -c conf alpha; echo $?; rsnapshot -c conf alpha; echo $?; find snap -printf '%m %n %y %p\\n' | grep -v ' d ' | sort -k4",
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
        client: "export RESTIC_PASSWORD=x RESTIC_REPOSITORY=sftp:bob@server:repo; mkdir d; seq 20000 >d/a; restic -q init; echo $?; restic -q backup d; echo $?; restic -q check; echo $?; restic -q restore latest --target r; cmp d/a r/d/a; echo $?; restic -q forget latest --prune; echo $?",
        sees: &["0\n0\n0\n0\n0\n"],
        ..RECIPE
    }
    .run();
}

/// rclone, by its own library and through an external `ssh`.
#[test]
fn rclone_copies_and_checks_over_sftp() {
    Recipe {
        tools: &["rclone"],
        client: "export RCLONE_LOG_LEVEL=ERROR; mkdir -p d/e; seq 20000 >d/a; echo b >d/e/b; r=':sftp,host=server,user=bob,key_file=/home/me/.ssh/id_ed25519'; rclone copy d \"$r:up\" 2>&1; echo $?; rclone check d \"$r:up\" 2>&1 | sed 's/^.*: //' | sort; rclone lsf -R \"$r:up\"; rclone sync \"$r:up\" back; diff -r d back; echo $?\n\
                 rclone move \"$r:up/a\" \"$r:moved\"; rclone lsf -R \"$r:\" --exclude '.*/**' --exclude '.*' | sort; rclone purge \"$r:up\"; echo $?",
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
        client: "mkdir tree; seq 9999 >tree/a; unison tree ssh://bob@server/tree -batch -auto -silent -confirmbigdel=false; echo $?; cat tree/b; rm tree/a; unison tree ssh://bob@server/tree -batch -auto -silent -confirmbigdel=false; echo $?; ls tree",
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
        client: "export AUTOSSH_GATETIME=0 AUTOSSH_POLL=10; autossh -M 0 -f -N -L 7001:localhost:22 bob@server; for i in {1..100}; do grep -q :1B59 /proc/net/tcp && break; sleep 0.1; done; ssh -p 7001 -o HostKeyAlias=server bob@localhost id -un\n\
                 pkill -HUP -x -u me ssh; sleep 0.5; for i in {1..150}; do grep -q ':1B59 [0-9A-F:]* 0A' /proc/net/tcp && break; sleep 0.1; done; ssh -p 7001 -o HostKeyAlias=server bob@localhost id -un; pkill -x autossh; echo $?",
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
        client: "mkdir -p .parallel; touch .parallel/will-cite; parallel -k -S 2/bob@server,2/bob@inner 'echo {} $(id -un); exit {}' ::: 0 1 2 3 </dev/null; echo $?; for n in 1 2 3; do seq $n >f$n; done; parallel -k -S bob@server --trc {}.n 'wc -l <{} >{}.n' ::: f1 f2 f3 </dev/null; cat f*.n; parallel --nonall -S bob@server,bob@bastion id -un </dev/null",
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
        client: "PDSH_RCMD_TYPE=ssh pdsh -l bob -w server,bastion,inner 'id -un; exit 3' 2>&1 | sort; PDSH_RCMD_TYPE=ssh pdsh -S -l bob -w server,inner 'exit 4' 2>/dev/null; echo $?; clush -l bob -w server,bastion,inner -bS 'id -un; exit 2' 2>/dev/null; echo $?; echo w >f; clush -l bob -w server --copy f --dest /tmp/copied; echo $?",
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
        client: "export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@x GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@x; ssh bob@server 'git config --global user.name b; git config --global user.email b@x; git init -q --bare r.git; cd r.git; git annex init -q there'; git init -q -b main w; cd w; git annex init -q here; seq 30000 >big; git annex add -q big; git commit -qm one; git remote add o bob@server:r.git; git push -q o main git-annex; git annex sync -q >/dev/null 2>&1; git annex copy -q --to o big; echo $?; git annex drop -q big; echo $?; git annex get -q --from o big; echo $?; wc -l <big",
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
        client: "printf 'import sys\\nprint(\"py\", sys.stdin.readline().strip())\\n' | ssh bob@server \"python3 -c 'import sys; exec(sys.stdin.read())'\"; echo $?; tar cf - .ssh/known_hosts | ssh bob@server 'tar tf -'; ssh bob@server 'tar cf - .ssh' | tar tf - | sort; mkdir t; seq 9999 >t/a; rsync -az --partial --info=stats0 t/ bob@server:t/; echo $?; rsync -a --checksum --dry-run --itemize-changes t/ bob@server:t/; rsync -a bob@server:t/ :u/ 2>&1 | tail -1 | cut -c1-20; dd if=/dev/zero bs=64k count=50 2>/dev/null | ssh -c aes128-ctr bob@server 'wc -c'",
        sees: &["3276800"],
        ..RECIPE
    }
    .run();
}
