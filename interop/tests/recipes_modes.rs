//! Recipes for `StrictModes`: which owners, modes, links and access control lists of a home and its keys a
//! login accepts.

use lh_interop::recipe::{Ends, RECIPE, Recipe};

/// Each account has one thing that is unusual about its home, `~/.ssh` or the file of keys.
///
/// Covers: sshd_config StrictModes; sshd_config AuthorizedKeysFile
#[test]
fn owners_modes_links_and_lists_of_homes_and_keys() {
    Recipe {
        tools: &["python3"],
        server: "
Match User absolute,absoluteopen,absolutelink
  AuthorizedKeysFile /etc/ssh/keys/%u
Match User none
  AuthorizedKeysFile none
",
        setup: r#"
group shared 3900 bob
mkdir -p /etc/ssh/keys /srv/keys /srv/ssh /srv/homes
mkdir -m 777 /srv/open
# acl FILE MASK NAME BITS: an entry for a user, as setfacl writes it
acl() {
    chgrp shared "$1"
    python3 - "$@" <<'P'
import os, pwd, struct, sys
path, mask, name, bits = sys.argv[1:]
mode, nobody = os.stat(path).st_mode, 0xffffffff
entries = [(1, mode >> 6 & 7, nobody), (2, int(bits), pwd.getpwnam(name).pw_uid), (4, mode >> 3 & 5, nobody),
           (16, int(mask), nobody), (32, mode & 5, nobody)]
packed = b''.join(struct.pack('<HHI', *entry) for entry in entries)
os.setxattr(path, 'system.posix_acl_access', struct.pack('<I', 2) + packed)
P
}
keys=.ssh/authorized_keys
# NAME|COMMANDS in its home
while IFS='|' read -r n commands; do
    uid=$((uid + 1))
    account $n $((3000 + uid))
    (cd /home/$n && eval "$commands")
done <<'END'
usual|
owngroup|chmod 775 . .ssh; chmod 664 $keys
home775|chgrp shared .; chmod 775 .
home757|chmod 757 .
home1777|chmod 1777 .
home711|chmod 711 .
homeother|chown bob .
homeroot|chown root: .
homerootopen|chown root:shared .; chmod 775 .
ssh775|chgrp shared .ssh; chmod 775 .ssh
ssh757|chmod 757 .ssh
ssh755|chmod 755 .ssh
sshother|chown bob .ssh; chmod 755 .ssh
sshroot|chown root: .ssh; chmod 755 .ssh
sshroot700|chown root: .ssh
sshfile|rm -r .ssh; cp /world/authorized_keys .ssh
sshmissing|rm -r .ssh
keys664|chgrp shared $keys; chmod 664 $keys
keys646|chmod 646 $keys
keys444|chmod 444 $keys
keys000|chmod 0 $keys
keysother|chown bob $keys; chmod 644 $keys
keysbin|chown bin: $keys; chmod 644 $keys
keysroot|chown root: $keys; chmod 644 $keys
keysroot600|chown root: $keys; chmod 600 $keys
keysempty|: >$keys
keysdirectory|rm $keys; mkdir $keys
keysfifo|rm $keys; mkfifo $keys; chown $n $keys
keyshard|ln $keys second
linkhome|mv $keys keys; ln -s ../keys $keys
linkhomeopen|mkdir -m 777 open; mv $keys open/keys; ln -s ../open/keys $keys
linkout|cp /world/authorized_keys /srv/keys/$n; ln -sf /srv/keys/$n $keys
linktmp|cp /world/authorized_keys /tmp/$n; chown $n /tmp/$n; ln -sf /tmp/$n $keys
linkother|mv $keys keys; ln -s ../keys $keys; chown -h bob $keys
dangling|ln -sf /nowhere $keys
loop|ln -sf authorized_keys $keys
sshlink|mv .ssh /srv/ssh/$n; ln -s /srv/ssh/$n .ssh
sshlinkopen|mv .ssh /srv/open/$n; ln -s /srv/open/$n .ssh
homelink|mv /home/$n /srv/open/$n; ln -s /srv/open/$n /home/$n
homelinkopen|mv /home/$n /srv/homes/$n; chmod 757 /srv/homes/$n; ln -s /srv/homes/$n /home/$n
homegone|rm -r /home/$n
homelist|acl . 5 bob 5
homelistopen|acl . 7 bob 7
keyslist|acl $keys 4 bob 4
keyslistopen|acl $keys 6 bob 6
keyslistown|acl $keys 6 $n 6
grouplist|acl $keys 6 bob 6; chgrp $n $keys
grouphome|chgrp shared .ssh; chmod 775 .
groupbob|chmod 664 $keys; usermod -aG $n bob
groupprimary|chmod 664 $keys; usermod -g $n bob
absolute|cp /world/authorized_keys /etc/ssh/keys/$n; chmod 757 .
absoluteopen|cp /world/authorized_keys /etc/ssh/keys/$n; chmod 666 /etc/ssh/keys/$n
absolutelink|ln -s /home/$n/.ssh/authorized_keys /etc/ssh/keys/$n; chmod 757 .ssh
none|
END
"#,
        client: r#"
for u in $(awk -F: '$3 > 3000 && $3 < 3900 { print $1 }' /etc/passwd); do
    echo "$u: $(ssh -o BatchMode=yes $u@server echo accepted 2>&1)"
done | sed 's/: .*Permission denied.*/: refused/'
"#,
        look: r#"
sessions_ended
grep -hoE "(Authentication refused|Could not open user|User '.*' is not a regular).*" /var/log/sshd.log | uniq
"#,
        sees: &["usual: accepted\n", "keysroot: accepted\n", "keyslistopen: refused\n"],
        differs: &[
            (
                "grouplist: refused",
                "grouplist: accepted",
                "an access control list lets another user write, which Debian's own change does not look at",
            ),
            (
                "Authentication refused: bad ownership or modes for file /home/grouplist/.ssh/authorized_keys\n",
                "",
                "the same",
            ),
        ],
        ends: Ends::Server,
        ..RECIPE
    }
    .run();
}
