# Functions of the tests of installed packages; read by installed.sh and installed_rpm.sh.
export LC_ALL=C DEBIAN_FRONTEND=noninteractive

fail() { echo "FAILED: $*" >&2; exit 1; }
step() { echo "--- $*"; }

# All files with their contents, apart from what dpkg, apt, rpm and the programs of users keep for themselves.
files() {
    for action in '-printf %y:%m:%U:%G:%p:%l\n' '-type f -exec sha256sum {} +'; do
        find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /tmp -o -path /packages -o -path /home \
            -o -path /root -o -path /var/lib/dpkg -o -path /var/lib/apt -o -path /var/lib/rpm -o -path /var/log -o -path /var/cache -o -path /run \
            -o -path '/etc/*-' -o -path '/etc/.pwd.lock' \) -prune -o $action
    done | sort
}

server=
start_server() {
    . /etc/default/lhsshd
    # As lhsshd.service does.
    /usr/sbin/lhsshd -t -f /etc/ssh/lhsshd_config $LHSSHD_OPTIONS
    /usr/sbin/lhsshd -D -E /tmp/lhsshd.log -f /etc/ssh/lhsshd_config $LHSSHD_OPTIONS &
    server=$!
    wait_for "the server" grep -qs 'Server listening on 0.0.0.0 port 2222' /tmp/lhsshd.log
}
wait_for() {
    what=$1; shift
    for _ in $(seq 300); do
        if "$@"; then return 0; fi
        sleep 0.1
    done
    cat /tmp/lhsshd.log >&2 || true
    fail "$what does not come"
}
# A process that has ended may wait for its parent, without a command line.
wait_for_end() { wait_for "the end of the server" sh -c "! grep -q . /proc/$1/cmdline 2> /dev/null"; }
# Runs a command that prints only when it fails.
quietly() { "$@" > /tmp/said.log 2>&1 || { cat /tmp/said.log >&2; fail "$*"; }; }
# Without systemd, the packages reload a listener that was started by hand: it starts the new program.
wait_for_new_program() {
    wait_for "the new program" sh -c '[ "$(grep -c "Server listening on 0.0.0.0 port 2222" /tmp/lhsshd.log)" -ge 2 ]'
}
# What `systemctl restart` does.
restart_server() {
    kill "$server"
    wait "$server" || true
    mv /tmp/lhsshd.log /tmp/lhsshd.first.log
    start_server
}
# Runs $@ while the file with the server's process id has that of an agent, which must get no signal.
with_stale_process_id() {
    cp /run/lhsshd.pid /tmp/lhsshd.pid
    lhssh-agent -D -a /tmp/agent > /dev/null &
    agent=$!
    wait_for "the agent" test -S /tmp/agent
    # Signals for a process that is stopped stay pending, so none can be missed.
    kill -STOP "$agent"
    wait_for "the stopped agent" grep -q '^State:.T' /proc/$agent/status
    echo "$agent" > /run/lhsshd.pid
    "$@" || fail "$*"
    grep -q '^ShdPnd:.0*$' /proc/$agent/status || fail "the agent got a signal"
    kill -CONT "$agent"
    kill "$agent"
    wait "$agent" || true
    rm -f /tmp/agent
    cp /tmp/lhsshd.pid /run/lhsshd.pid
}
as_ada() { su ada -c "cd; $*"; }
options="-o StrictHostKeyChecking=accept-new -o BatchMode=yes"
logs_in() { [ "$(as_ada "lhssh $options -p 2222 127.0.0.1 id -un")" = ada ] || fail "no session $1"; }

# Clients of root's, sessions of ada's: their process ids are those of the clients.
load=/tmp/load
as="-i /home/ada/.ssh/id_ed25519 -o UserKnownHostsFile=/home/ada/.ssh/known_hosts $options"
# Sends lines until the test ends, and keeps what it has sent.
lines() {
    count=0
    while [ ! -e $load/end ]; do
        echo "line $count"
        count=$((count + 1))
        sleep 0.5
    done
    echo end
}
# NAME STATUS COMMAND…: a session that gets lines and returns them.
session() {
    name=$1 expected=$2; shift 2
    { lines | tee $load/$name.sent | { code=0; "$@" > $load/$name.got || code=$?; echo $code > $load/$name.code; }; } &
    echo "$! $name $expected" >> $load/sessions
    wait_for "the session $name" grep -qs "line 0" $load/$name.got
}
# Opens five sessions of different kinds, $1 times.
open_sessions() {
    mkdir $load
    chmod 777 $load
    head -c 4000000 /home/ada/blob > $load/blob
    for n in $(seq "$1"); do
        session command-$n 0 lhssh $as -p 2222 ada@127.0.0.1 cat
        session second-command-$n 0 lhssh $as -p 2222 ada@127.0.0.1 'while read -r line; do echo "$line"; done'
        session terminal-$n 5 lhssh -tt $as -p 2222 ada@127.0.0.1 \
            'stty -echo -onlcr; while read -r line; do echo "$line"; if [ "$line" = end ]; then exit 5; fi; done'
        # Through a forwarded connection of another session.
        session jump-$n 0 lhssh $as -o "ProxyCommand=lhssh $as -p 2222 -W 127.0.0.1:2222 ada@127.0.0.1" ada@127.0.0.1 cat
        # A copy of eight seconds, stopped in its middle.
        mkdir $load/copy-$n
        chmod 777 $load/copy-$n
        lhscp $as -q -l 4000 -P 2222 $load/blob ada@127.0.0.1:$load/copy-$n/blob &
        copy=$!
        echo "$copy copy-$n 0" >> $load/sessions
        wait_for "the copy $n" sh -c "find $load/copy-$n -type f -size +0 | grep -q ."
        kill -STOP $copy
        [ ! -e $load/copy-$n/blob ] || fail "the copy $n was too fast"
    done
    [ "$(wc -l < $load/sessions)" = "$(($1 * 5))" ] || fail "not all sessions"
}
still_moving() {
    for file in $load/*.before; do
        now=$(wc -l < "${file%.before}.got")
        [ "$now" -gt "$(cat "$file")" ] || return 1
    done
}
# Fails unless all of these sessions are open and lose nothing until their end.
end_sessions() {
    while read -r pid name expected; do
        kill -0 "$pid" 2> /dev/null || fail "the session $name has ended"
        [ ! -s $load/$name.got ] || wc -l < $load/$name.got > $load/$name.before
    done < $load/sessions
    wait_for "a line from each session" still_moving
    touch $load/end
    while read -r pid name expected; do
        case $name in copy-*) kill -CONT "$pid" ;; esac
    done < $load/sessions
    while read -r pid name expected; do
        case $name in
        copy-*)
            wait "$pid" || fail "$name"
            cmp $load/blob $load/$name/blob || fail "$name has other contents"
            ;;
        *)
            wait "$pid" || true
            [ "$(cat $load/$name.code)" = "$expected" ] || fail "$name ended with $(cat $load/$name.code)"
            # What was sent before a terminal had its settings comes twice.
            case $name in terminal-*) tr -d '\r' < $load/$name.got | awk '!seen[$0]++' > $load/got && mv $load/got $load/$name.got ;; esac
            cmp $load/$name.sent $load/$name.got || fail "$name lost something"
            ;;
        esac
    done < $load/sessions
    rm -r $load
}
