//! Recipes for version control over SSH: Subversion, Mercurial, CVS, and git's operations other than clone
//! and push.

use lh_interop::recipe::{RECIPE, Recipe};

/// Subversion's tunnels, with another port of `SVN_SSH`, and repositories that are not there. Subversion ends
/// its `ssh` when it has failed, so what the server said on standard error may be lost with any client.
#[test]
fn subversion_by_its_ssh_tunnel() {
    Recipe {
        tools: &["svn", "svnadmin"],
        setup: "mkdir /srv/d; chown bob: /srv/d",
        client: r#"ssh bob@server svnadmin create /srv/d/r; r=svn+ssh://bob@server/srv/d/r; svn -q mkdir -m init $r/trunk; svn -q co $r/trunk w; cd w
seq 2000 >a; svn -q add a; svn ci -q -m one; svn log -q | grep -c '^r'; svn ls -v $r/trunk | awk '{print $2, $3, $NF}'; svn cat $r/trunk/a | md5sum
svn ls svn+ssh://bob@server/srv/d/none 2>&1 | grep -c '^svn: E170013'; SVN_SSH='ssh -q -p 23' svn ls $r 2>&1 | head -1; SVN_SSH='ssh -4 -o Compression=yes' svn up -q; echo $?"#,
        sees: &["8893 a\n", "E170013: Unable to connect to a repository"],
        ..RECIPE
    }
    .run();
}

/// Mercurial clones, pushes and pulls, with its `ui.ssh`; CVS imports, checks out and commits by `CVS_RSH`.
#[test]
fn mercurial_and_cvs() {
    Recipe {
        tools: &["hg", "cvs"],
        setup: "mkdir /srv/d; chown bob: /srv/d",
        client: r#"hg init h; cd h; echo y >y; hg -q add y; hg -q ci -u me -m one; hg -q clone . ssh://bob@server//srv/d/h; cd; hg -q clone ssh://bob@server//srv/d/h h2
cd h2; cat y; seq 3000 >z; hg -q add z; hg ci -q -u me -m two; hg push; hg -q --config ui.ssh='ssh -C -oIPQoS=none' pull; ssh bob@server 'hg -R /srv/d/h log -T "{desc}\n"'
hg clone ssh://bob@server//srv/d/none 2>&1; echo $?; hg -q clone ssh://bob@server:23//srv/d/h 2>/dev/null; echo $?; cd
export CVS_RSH=ssh CVSROOT=:ext:bob@server:/srv/d/c; cvs init; mkdir c; cd c; seq 500 >q; cvs -Q import -m i proj v r; cd; cvs -Q co proj; wc -l proj/q
cd proj; echo q2 >>q; cvs -Q ci -m two q >/dev/null 2>&1; echo $?; cvs -Q up -p -r 1.2 q | tail -1; cvs -d :ext:bob@server:/srv/d/none co proj; echo $?"#,
        sees: &["remote: added 1 changesets", "two\none\n", "500 proj/q\n0\nq2\n", "Cannot access /srv/d/none/CVSROOT"],
        ..RECIPE
    }
    .run();
}

/// git: ways to name the host, `core.sshCommand`, `GIT_SSH_VARIANT`, archives of a remote, the old protocol,
/// refused hosts, and the commands of git-lfs.
#[test]
fn git_by_every_address_and_lfs() {
    Recipe {
        tools: &["git", "git-lfs"],
        setup: r#"mkdir -p /srv/g; chown bob: /srv/g
printf '#!/bin/sh\necho "transfer: $*" >&2; exit 3\n' >/usr/local/bin/git-lfs-transfer
printf '#!/bin/sh\nprintf "{\\"href\\":\\"http://server:8099/%%s\\"}" "$1"\necho "$*" >>/tmp/authenticated\n' >/usr/local/bin/git-lfs-authenticate
chmod +x /usr/local/bin/git-lfs-*"#,
        client: r#"git config --global user.email me@x; git config --global user.name me; git config --global init.defaultBranch main; g=/srv/g/r.git
ssh bob@server "git init -q --bare -b main $g"; git init -q r; cd r; echo a >a; git add .; git commit -qm r; git remote add origin ssh://bob@server:22$g
git config core.sshCommand 'ssh -o LogLevel=ERROR -i ~/.ssh/id_ed25519'; git push -q -u origin main; cd; refs() { git "$@" 2>&1 | cut -f2; }
for at in ssh://bob@[::1]:22$g bob@[server]:$g "[bob@server:22]:$g" ssh://bob@server:/$g bob@server:$g; do echo "== $at"; refs ls-remote "$at"; done
GIT_SSH=/usr/bin/ssh GIT_SSH_VARIANT=ssh refs ls-remote bob@server:$g; refs -c protocol.version=0 ls-remote bob@server:$g; refs -c ssh.variant=simple ls-remote ssh://bob@server:22$g
for bad in 'ssh -p 23' false 'ssh -G' 'ssh -o BatchMode=maybe'; do echo "== $bad"; GIT_SSH_COMMAND=$bad git ls-remote bob@server:$g 2>&1 | head -2; done
git archive --remote=bob@server:$g main | tar t; git archive --remote=bob@server:$g nosuch >/dev/null 2>&1; echo $?; refs ls-remote ssh://bob@-server/x; refs ls-remote ssh://-oProxyCommand=x/x
git clone -q 'bob@server:/srv/g/no such' 2>&1 | head -1; git clone -q --depth 1 --filter=blob:none ssh://bob@server$g c 2>&1 | grep -v warning; cat c/a
cd c; git lfs install --local >/dev/null; git lfs track '*.bin' >/dev/null; head -c 1000 /dev/zero >a.bin; git add .; git commit -qm lfs; git push -q 2>&1 | grep -c 8099; cat /tmp/authenticated | LC_ALL=C sort -u"#,
        sees: &[
            "== bob@server:/srv/g/r.git\nHEAD\nrefs/heads/main\n",
            "hostname contains invalid characters\n",
            "/srv/g/r.git upload\n",
        ],
        ..RECIPE
    }
    .run();
}
