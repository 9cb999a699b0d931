//! The work that runs over the connection while it is cut: shell scripts that compare their results. They
//! succeed when every exit status and every byte is right.

use lh_interop::find;

/// A script with its requirements.
pub(super) struct Work {
    /// Name in reports.
    pub(super) name: &'static str,
    /// Other programs that must be installed.
    needs: &'static [&'static str],
    /// Minimum number of bytes that it moves, if it does not depend on the sources.
    pub(super) volume: Option<u64>,
    /// Script that `sh -eu` runs in an empty directory. `$ssh` is the client with its options; `$blob`,
    /// `$tree` and `$repository` are sources.
    pub(super) script: &'static str,
}

/// Functions for the scripts.
pub(super) const PRELUDE: &str = r#"
status() { want=$1; shift; got=0; "$@" || got=$?; [ "$got" = "$want" ] || { echo "status $got, not $want: $*" >&2; exit 90; }; }
master() { $ssh -M -S "$PWD/ctl" -N "$@" server & master=$!; until $ssh -S "$PWD/ctl" -O check server 2>/dev/null; do kill -0 $master; sleep 0.05; done; }
done_with_master() { $ssh -S "$PWD/ctl" -O exit server 2>/dev/null; wait $master || true; }
"#;

/// All scripts, in the order of the rounds. Their number and that of the cuts have no common factor, so all
/// pairs occur.
pub(super) const ALL: [Work; 13] = [
    Work {
        name: "cat down",
        needs: &[],
        volume: None,
        script: r#"status 7 $ssh server "cat $blob; exit 7" > out; cmp "$blob" out"#,
    },
    Work {
        name: "cat up",
        needs: &[],
        volume: None,
        script: r#"status 7 $ssh server "cat > $PWD/out; exit 7" < "$blob"; cmp "$blob" out"#,
    },
    Work {
        name: "rsync",
        needs: &["rsync"],
        volume: None,
        script: r#"rsync -a -e "$ssh" "server:$tree/" down; diff -r "$tree" down
rsync -a -e "$ssh" "$tree/" "server:$PWD/up"; diff -r "$tree" up"#,
    },
    Work {
        name: "git clone",
        needs: &["git"],
        volume: None,
        script: r#"GIT_SSH_COMMAND="$ssh" git clone -q "server:$repository" clone; cmp "$blob" clone/blob"#,
    },
    Work {
        name: "-L and curl",
        needs: &["curl"],
        volume: None,
        script: r#"master -L "127.0.0.1:8001:127.0.0.1:$http"
for part in 1 2 3; do curl -sS -o out http://127.0.0.1:8001/blob; cmp "$blob" out; done
done_with_master"#,
    },
    Work {
        name: "-D and ten curls",
        needs: &["curl"],
        volume: None,
        script: r#"master -D 127.0.0.1:8002; all=
for part in 1 2 3 4 5 6 7 8 9 10; do
  { for file in small blob small small; do curl -sS --socks5-hostname 127.0.0.1:8002 -o out$part "http://127.0.0.1:$http/$file"; cmp "$sources/$file" out$part; done; } & all="$all $!"
done
for each in $all; do status 0 wait $each; done; done_with_master"#,
    },
    Work {
        name: "-D and a browser's load",
        needs: &["curl"],
        volume: None,
        script: r#"master -D 127.0.0.1:8003; i=0
while [ $i -lt 203 ]; do file=small; case $i in 20|90|91) file=blob;; esac
  printf 'url = http://127.0.0.1:%s/%s\noutput = %s.%s\n' "$http" $file $file $i; i=$((i + 1)); done > list
curl -sS -Z --parallel-max 40 --socks5-hostname 127.0.0.1:8003 -K list
for got in small.* blob.*; do cmp "$sources/${got%.*}" "$got"; rm "$got"; i=$((i - 1)); done; [ $i = 0 ]
done_with_master"#,
    },
    Work {
        name: "sshfs",
        needs: &["sshfs", "fusermount3", "mountpoint"],
        volume: None,
        script: r#"mkdir far near; sshfs -f -o "ssh_command=$ssh" "server:$PWD/far" near & mount=$!
trap 'fusermount3 -u near 2>/dev/null || true' EXIT
until mountpoint -q near; do kill -0 $mount; sleep 0.05; done
cp "$blob" near/up; cmp "$blob" far/up; cp "$sources/small" far/small; cmp "$sources/small" near/small
cp -r "$tree" near/tree; diff -r "$tree" far/tree; cp near/up down; cmp "$blob" down
fusermount3 -u near; trap - EXIT; wait $mount"#,
    },
    Work {
        name: "borg",
        needs: &["borg"],
        volume: None,
        script: r#"export BORG_RSH="$ssh" BORG_BASE_DIR="$PWD/base" BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK=yes BORG_RELOCATED_REPO_ACCESS_IS_OK=yes
there="ssh://server$PWD/repository"; borg init -e none "$there"; (cd "$tree"; borg create -C none "$there::one" .)
mkdir out; (cd out; borg extract "$there::one"); diff -r "$tree" out"#,
    },
    Work {
        name: "a master and ten mux clients",
        needs: &[],
        volume: None,
        script: r#"master; all=
for part in 1 2 3 4 5 6 7 8 9 10; do
  $ssh -S "$PWD/ctl" server "cat $tree/part$part; exit $part" > out$part & all="$all $!"
done
part=1; for each in $all; do status $part wait $each; cmp "$tree/part$part" out$part; part=$((part + 1)); done
done_with_master"#,
    },
    Work {
        name: "mux clients that come and go",
        needs: &["seq"],
        volume: None,
        script: r#"master; all=
for part in 1 2 3 4 5 6 7 8 9 10; do
  { for turn in 1 2 3; do
      status $part $ssh -S "$PWD/ctl" server "cat $tree/part$part; exit $part" > down$part; cmp "$tree/part$part" down$part
      status 9 $ssh -S "$PWD/ctl" server "cat > $PWD/up$part; exit 9" < "$sources/small"; cmp "$sources/small" up$part
      [ "$(seq 9 | $ssh -S "$PWD/ctl" server cat)" = "$(seq 9)" ]
    done; } & all="$all $!"
done
for each in $all; do wait $each; done; done_with_master"#,
    },
    Work {
        name: "a shell's keys",
        needs: &[],
        volume: Some(160_000),
        script: r#"i=0; mkfifo keys; $ssh server 'while read line; do echo "$line" "$(printf %02000d 7)"; done; exit 9' < keys > out & shell=$!
exec 3> keys; while [ $i -lt 100 ]; do echo "key $i" >&3; sleep 0.03; i=$((i + 1)); done; exec 3>&-
status 9 wait $shell; i=0; while [ $i -lt 100 ]; do printf 'key %d %02000d\n' $i 7; i=$((i + 1)); done | cmp - out"#,
    },
    Work {
        name: "vim in tmux",
        needs: &["tmux", "vim"],
        volume: Some(60_000),
        script: r#"unset TMUX; t="tmux -S $PWD/tmux -f /dev/null"; trap '$t kill-server 2>/dev/null || true' EXIT
$t new-session -d -x 80 -y 24 "$ssh -t server 'vim -u NONE -n $PWD/text; exit 5'; echo \$? > $PWD/status"
until $t capture-pane -p | grep -q '^~'; do $t has-session; sleep 0.05; done
$t send-keys -l i; i=0; while [ $i -lt 150 ]; do $t send-keys -l "$(printf 'line %d %0300d' $i 7)"; $t send-keys Enter; sleep 0.02; i=$((i + 1)); done
$t send-keys Escape; $t send-keys -l :wq; $t send-keys Enter; until [ -s status ]; do sleep 0.05; done; [ "$(cat status)" = 5 ]
i=0; { while [ $i -lt 150 ]; do printf 'line %d %0300d\n' $i 7; i=$((i + 1)); done; echo; } | cmp - text"#,
    },
];

impl Work {
    /// Returns the required programs that are not installed.
    pub(super) fn missing(&self) -> Vec<&'static str> {
        self.needs.iter().copied().filter(|program| find(program).is_none()).collect()
    }
}
