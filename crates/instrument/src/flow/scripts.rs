//! Commands of transfers, which the server's shell runs.

use super::groups::functions;
use super::{shapers, stopped};

/// The command of an upload: reads its input to the end, and reports what the server's system counted.
pub(super) fn take() -> String {
    with_functions(TAKE)
}

/// The command of a download: sends zeros until a line comes, and reports the same.
pub(super) fn give() -> String {
    with_functions(GIVE)
}

fn with_functions(script: &str) -> String {
    let functions = [
        ("@GROUPS@", &*functions()),
        ("@COUNTERS@", COUNTERS),
        ("@STATES@", stopped::FUNCTIONS),
        ("@SHAPERS@", shapers::FUNCTION),
    ];
    functions.iter().fold(script.to_owned(), |script, (name, text)| script.replace(name, text))
}

/// Functions that print the processor times of the SSH process's threads, those of all processors, the
/// processors that the process may use, and the counters of network devices.
const COUNTERS: &str = r#"t() { grep -H . /proc/$PPID/task/*/schedstat 2>/dev/null | tr "\n" ";"; }
a() { head -n 1 /proc/stat 2>/dev/null; }
A() { grep ^Cpus_allowed: /proc/$PPID/status 2>/dev/null; grep -c "^cpu[0-9]" /proc/stat 2>/dev/null; }
i() { grep : /proc/net/dev 2>/dev/null | tr "\n" ";"; }"#;

/// Reads its input to the end, and reports the SSH process's processor time and control groups around it. The
/// function `U` prints in how many of how many looks much was in the receive queue of the server's TCP; `C`
/// prints how much the command had read by which uptime.
const TAKE: &str = r#"@GROUPS@
@COUNTERS@
x() { grep ^IpExt: /proc/net/netstat 2>/dev/null | tr "\n" ";"; }
@STATES@
set -- $SSH_CONNECTION; d="sport = :$4 and dport = :$2"
U() { j=0; k=0; while sleep 0.2 </dev/null >/dev/null 2>&1 && set -- $(ss -tnH "$d") && [ -n "$2" ]; do j=$((j+1)); [ "$2" -lt 65536 ] || k=$((k+1)); echo "U=$k $j"; done 2>/dev/null; }
C() { while sleep 0.2 </dev/null >/dev/null 2>&1 && read u x </proc/uptime && read n r </proc/$1/io; do echo "C=$u $r"; done 2>/dev/null; }
p=$(cat /proc/$PPID/stat 2>/dev/null); b=$(t); g=$(c); j=$(w); y=$(a); m=$(x); D=$(i); S & l=$!; U & u=$!; echo ready
exec 3<&0; cat <&3 >/dev/null 3<&- & k=$!; exec 3<&-; C $k & v=$!; wait $k; E=$(i); h=$(c); w=$(w); q=$(cat /proc/$PPID/stat 2>/dev/null); e=$(t); z=$(a); n=$(x); R=$(P); { kill $l $u $v; wait $l $u $v; } 2>/dev/null
echo "R=$R"; echo "p=$p"; echo "q=$q"; echo "b=$b"; echo "e=$e"; echo "g=$g"; echo "h=$h"; echo "j=$j"; echo "w=$w"; echo "y=$y"; echo "z=$z"; echo "A="$(A); echo "m=$m"; echo "n=$n"; echo "D=$D"; echo "E=$E""#;

/// Sends zeros until a line comes, then reports the same and what the kernel counted: also a line `r=` with
/// the uptime at several moments on the way, more often while the flow starts.
const GIVE: &str = r#"@GROUPS@
@COUNTERS@
@STATES@
@SHAPERS@
set -- $SSH_CONNECTION; d="sport = :$4 and dport = :$2"
f() { ss -tinH "$d" 2>/dev/null | tr "\n" " "; }
r() { read u x </proc/uptime && v=$(f) && [ -n "$v" ] && v="r=$u $v"; } 2>/dev/null
B=$(K); p=$(cat /proc/$PPID/stat 2>/dev/null); b=$(t); g=$(c); j=$(w); y=$(a); r; v0=$v; D=$(i); cat /dev/zero 2>/dev/null & k=$!
{ n=0.1; i=0; while sleep $n </dev/null >/dev/null 2>&1 && r && echo "$v" >&2; do i=$((i+1)); [ $i -lt 12 ] || n=0.3; done; } & l=$!
S >&2 & m=$!
read x; E=$(i); h=$(c); w=$(w); q=$(cat /proc/$PPID/stat 2>/dev/null); e=$(t); z=$(a); s=$(f)
o=$(ss -tnH --tos "$d" 2>/dev/null | tr "\n" " ")
R=$(P); F=$(K)
{ kill $k $l $m; wait $k $l $m; } 2>/dev/null
{ echo "R=$R"; echo "p=$p"; echo "q=$q"; echo "b=$b"; echo "e=$e"; echo "g=$g"; echo "h=$h"; echo "j=$j"; echo "w=$w"; echo "y=$y"; echo "z=$z"; echo "A="$(A); echo "s=$s"; echo "o=$o"; echo "D=$D"; echo "E=$E"; echo "B=$B"; echo "F=$F"; echo "$v0"; } >&2"#;
