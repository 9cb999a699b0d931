//! Recipes for host keys: found, hashed and removed by `ssh-keygen`, checked by scripts or not.

use lh_interop::recipe::{Ends, RECIPE, Recipe};

/// Hosts found, hashed and removed by `ssh-keygen`, with ports, patterns, comments and marks.
///
/// Covers: ssh-keygen -F; ssh-keygen -R; ssh-keygen -H; ssh-keygen -l
#[test]
fn hosts_found_hashed_and_removed_by_keygen() {
    Recipe {
        client: r##"
cd .ssh
k=$(cut -d' ' -f2- id_ed25519.pub | cut -d' ' -f1)
printf '%s\n' "# mine" "" "one,two ssh-ed25519 $k a comment" "[one]:2222 ssh-ed25519 $k" "*.example.net,!bad.example.net ssh-ed25519 $k" "@revoked three ssh-ed25519 $k" "@cert-authority *.corp ssh-ed25519 $k" "four ssh-ed25519 $k" >kh
for h in one two '[one]:2222' a.example.net bad.example.net three x.corp four five ONE; do
    echo "== $h"
    ssh-keygen -F $h -f kh | sed "s,$k,KEY,"; echo ${PIPESTATUS[0]}
done 2>&1
ssh-keygen -l -F one -f kh
ssh-keygen -l -f kh; echo $?
ssh-keygen -lv -F four -f kh
ssh-keygen -l -E md5 -F four -f kh
cp kh kh2
ssh-keygen -H -f kh2; echo $?
ls kh2*
cut -c1-3 kh2
for h in one two '[one]:2222' a.example.net three four; do
    ssh-keygen -F $h -f kh2 | sed "s,$k,KEY,; s,|1|.*=,HASH,"; echo ${PIPESTATUS[0]}
done 2>&1
for h in one five three '[one]:2222'; do ssh-keygen -R $h -f kh2; echo $?; done 2>&1
grep -c . kh2
for h in two a.example.net; do ssh-keygen -R $h -f kh; echo $?; done 2>&1
sed "s,$k,KEY," kh
ssh-keygen -R one -f nosuch; echo $?
ssh-keygen -F one -f nosuch; echo $?
ssh-keygen -F server | sed 's/AAAA.*//'
ssh-keygen -R server; echo $?
grep -c server known_hosts known_hosts.old
echo 'broken line' >>kh
ssh-keygen -R four -f kh; echo $?
ssh-keygen -H -f kh; echo $?
grep -c . kh
"##,
        sees: &["# Host one found: line 3"],
        ends: Ends::Client,
        ..RECIPE
    }
    .run();
}

/// The ways in which scripts switch host keys' checks off, and what a changed or revoked key does to each.
///
/// Covers: ssh_config StrictHostKeyChecking; ssh_config UserKnownHostsFile; ssh_config GlobalKnownHostsFile; ssh_config VisualHostKey; ssh_config FingerprintHash
#[test]
fn host_key_checks_as_scripts_switch_them_off() {
    Recipe {
        tools: &["expect"],
        setup: r#"
k=$(cut -d' ' -f2 /etc/ssh/ssh_host_ed25519_key.pub)
o=$(cut -d' ' -f2 /world/user_ed25519.pub)
echo "inner ssh-ed25519 $k" >/etc/ssh/ssh_known_hosts
echo "server ssh-ed25519 $o" >/home/me/changed
echo "@revoked * ssh-ed25519 $k" >/home/me/revoked
chown me: /home/me/*d
"#,
        config: "Host *\n  User bob\n  HostKeyAlgorithms ssh-ed25519\n",
        client: r#"
q() { sed 's/SHA256:[^ ]*/FP/g; s/MD5:[^ ]*/FP/g'; }
ssh -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null server id -un 2>&1 | q
for s in yes no accept-new off ask; do
    for f in changed revoked new; do
        echo "== $s $f"
        cp changed c
        cp revoked r
        ssh -o BatchMode=yes -o StrictHostKeyChecking=$s -o UserKnownHostsFile=$f server id -un 2>&1 |
            q; echo ${PIPESTATUS[0]}
        rm -f new
    done
done
cmp changed c
ssh -o UserKnownHostsFile=none inner id -un; echo $?
ssh -o UserKnownHostsFile='a b' -o StrictHostKeyChecking=accept-new bastion id -un 2>&1 | q
ls a b
ssh -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR -o StrictHostKeyChecking=no bastion id -un
ssh -o VisualHostKey=yes -o FingerprintHash=md5 server id -un 2>&1
cat >ex <<'E'
set timeout 60
log_user 0
foreach answer {no maybe yes} {
  file delete fresh
  spawn ssh -o UserKnownHostsFile=fresh -o FingerprintHash=md5 bastion id -un
  expect {
    -re {continue connecting.*\? $} { puts "asked: $expect_out(buffer)"; send "$answer\r" }
    eof {}
  }
  if {$answer eq {maybe}} { expect -re {Please type.*: $} { puts "again: $expect_out(buffer)"; send "no\r" } }
  expect eof
  puts "$answer: $expect_out(buffer)"
  puts [lindex [wait] 3]
}
E
expect ex
"#,
        sees: &["REMOTE HOST IDENTIFICATION HAS CHANGED!", "Please type"],
        differs: &[
            ("ssh-keygen -f 'changed' -R 'server'", "ssh-keygen -f \"changed\" -R \"server\"", "quoted as by newer OpenSSH"),
            ("Offending ED25519 key in revoked:1\n", "", "says where the mark is"),
            (
                "ED25519 host key for server was revoked and you have requested strict checking.\nHost key verification failed.\n255\n== no new",
                "Password authentication is disabled to avoid man-in-the-middle attacks.\nKeyboard-interactive authentication is disabled to avoid man-in-the-middle attacks.\nbob\n0\n== no new",
                "a revoked key is refused always",
            ),
            (
                "ED25519 host key for server was revoked and you have requested strict checking.\nHost key verification failed.\n255\n== off new",
                "Password authentication is disabled to avoid man-in-the-middle attacks.\nKeyboard-interactive authentication is disabled to avoid man-in-the-middle attacks.\nbob\n0\n== off new",
                "the same",
            ),
        ],
        ends: Ends::Client,
        ..RECIPE
    }
    .run();
}
