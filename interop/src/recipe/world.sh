# Makes the world of one run of a recipe, plays it and writes down what its user saw.
#   world.sh LAB BINS CLIENT SERVER PEERS  as root, in fresh mount, network, process, host-name and IPC name spaces
# CLIENT and SERVER are `stock` or `ours`: whose programs stand under OpenSSH's names. What is in PEERS is in /opt/peers.
#
# For recipes:
#   users    me (2001) at the client, with a key and ~/.ssh/known_hosts; bob (2002), whose authorized_keys has that key
#   hosts    server, server.example.org (127.0.0.1), bastion (127.0.0.2), inner (127.0.0.3): all are this machine, port 22
#   account NAME UID [HOME [SHELL]]   adds a user with that key and the password `correct horse battery`
#   group NAME GID [MEMBER,…]         adds a group
#   serve NAME CONFIG                 starts another server with this configuration; it has to say where it listens
#   start_server                      starts the server now, for what is to change afterwards
#   listening PORT                    waits until the port takes connections
#   eventually [!] COMMAND            a program: waits until the command succeeds (with ! fails), for a minute
#   sessions_ended                    for `look`: waits until the servers have no session, and so have logged all
#   tree FOLDER                       for `look`: type, mode, owner, group, size of files, name, target of links
set -e
lab=${1%/} bins=$2 client=$3 server=$4 peers=$5
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin LANG=C.UTF-8 HOME=/root
unset SSH_AUTH_SOCK SSH_ASKPASS DISPLAY XDG_RUNTIME_DIR TMPDIR TMUX

# A copy-on-write root, with nothing of this machine's people in it.
mount --make-rprivate /
mount -t tmpfs -o mode=755 world /mnt
mkdir /mnt/upper /mnt/work /mnt/root
mount -t overlay world -o lowerdir=/,upperdir=/mnt/upper,workdir=/mnt/work /mnt/root
cd /mnt/root
mount -t proc proc proc
# What is this machine's own may be looked at, not changed; devices are new ones.
mount --bind /sys sys
mount -o remount,bind,ro sys
mount -t tmpfs -o mode=755 dev dev
mkdir dev/pts dev/shm dev/net
while read device major minor; do
    mknod -m 666 dev/$device c $major $minor
done <<'END'
null 1 3
zero 1 5
full 1 7
random 1 8
urandom 1 9
tty 5 0
fuse 10 229
net/tun 10 200
END
ln -s /proc/self/fd dev/fd
ln -s pts/ptmx dev/ptmx
mount -t devpts -o newinstance,ptmxmode=666,mode=620,gid=5 pts dev/pts
for folder in root home srv run tmp var/tmp var/mail dev/shm etc/ssh media; do
    mkdir -p $folder
    mount -t tmpfs -o mode=755 tmpfs $folder
done
chmod 1777 tmp var/tmp dev/shm
chmod 700 root
mkdir -p opt/longhaul world old
mount --bind "$lab" world
mount --bind "$bins" opt/longhaul
mount -o remount,bind,ro opt/longhaul
if [ -d "$peers" ]; then
    mkdir opt/peers
    mount --bind "$peers" opt/peers
    mount -o remount,bind,ro opt/peers
fi
pivot_root . old
umount -l old
rmdir old
cd /
hostname server
ip link set lo up
echo '127.0.0.1 localhost server server.example.org
127.0.0.2 bastion bastion.example.org
127.0.0.3 inner inner.example.org
::1 localhost ip6-localhost' >/etc/hosts
: >/etc/resolv.conf

# Whose programs stand under OpenSSH's names.
stand() {
    for name; do
        ln -sf /opt/longhaul/lh$(basename $name) $name
    done
}
if [ $client = ours ]; then
    stand /usr/bin/{ssh,scp,sftp,ssh-add,ssh-agent,ssh-keygen,ssh-keyscan}
fi
if [ $server = ours ]; then
    stand /usr/sbin/sshd /usr/lib/openssh/sftp-server
fi

# People. The password is `correct horse battery`.
password='$6$longhaul$inj1yivRGZaCNm7xLhCqmFT.plk/0xisvIvynFS9984N7MQTE48YHjNZIrNm2KnUnWMYbDVU/xh2UJVtfeWfK0'
account() {
    local name=$1 uid=$2 home=${3:-/home/$1} shell=${4:-/bin/bash}
    echo "$name:x:$uid:$uid::$home:$shell" >>/etc/passwd
    echo "$name:x:$uid:" >>/etc/group
    echo "$name:$password:19000:0:99999:7:::" >>/etc/shadow
    # A folder that is there is not the account's to have.
    if [ -e "$home" ]; then return; fi
    mkdir -p "$home/.ssh"
    cp /world/authorized_keys "$home/.ssh/authorized_keys"
    chown -R "$uid:$uid" "$home"
    chmod 700 "$home/.ssh"
}
group() {
    echo "$1:x:$2:$3" >>/etc/group
}
listening() {
    local port=$(printf :%04X $1)
    for round in {1..3000}; do
        if grep -q "$port [0-9A-F:]* 0A" /proc/net/tcp /proc/net/tcp6; then return; fi
        sleep 0.02
    done
    echo "nothing listens on port $1" >&2
    return 1
}
tree() {
    find "$@" \( -type f -printf '%M %U %G %s %p\n' \) -o -printf '%M %U %G - %p %l\n' | LC_ALL=C sort -k5
}
sessions_ended() {
    eventually ! pgrep -P $(paste -sd, /run/*sshd*.pid)
}
start_server() {
    if [ -z "$started" ]; then
        started=yes
        /usr/sbin/sshd -E /var/log/sshd.log
        listening 22
    fi
}
serve() {
    printf '%s\n' "$2" >/etc/ssh/sshd_config.$1
    /usr/sbin/sshd -f /etc/ssh/sshd_config.$1 -o PidFile=/run/sshd-$1.pid -E /var/log/sshd-$1.log
}
account me 2001
account bob 2002
rm -r /home/me/.ssh/authorized_keys
for kind in ed25519 rsa ecdsa; do
    cp -p /world/host_$kind /etc/ssh/ssh_host_${kind}_key
    cp /world/host_$kind.pub /etc/ssh/ssh_host_${kind}_key.pub
    echo "server,bastion,inner,*.example.org,127.0.0.*,localhost,::1 $(cat /world/host_$kind.pub)"
done >/home/me/.ssh/known_hosts
cp /world/user_ed25519 /home/me/.ssh/id_ed25519
cp /world/user_ed25519.pub /home/me/.ssh/id_ed25519.pub
if [ -s /world/config ]; then cp /world/config /home/me/.ssh/config; fi
chown -R me:me /home/me
chmod 600 /home/me/.ssh/id_ed25519
mkdir -p /etc/ssh/ssh{,d}_config.d /run/sshd
cp /world/sshd_config /etc/ssh/sshd_config
printf '%s\n' 'Include /etc/ssh/ssh_config.d/*.conf' 'Host *' '    SendEnv LANG LC_*' '    HashKnownHosts yes' \
    '    GSSAPIAuthentication yes' >/etc/ssh/ssh_config
# NTRU Prime takes 65 ms of a processor in each of OpenSSH's clients, most of what a recipe takes. Other tests have it.
# Ours has a warning about key exchanges without it.
if [ $client = stock ]; then
    echo 'KexAlgorithms -sntrup761*' >/etc/ssh/sshd_config.d/key_exchange.conf
fi
# OpenSSH knows it from 9.8 on: it shuts out an address with many refused logins, of which recipes have some.
if [ $server = ours ]; then
    echo 'PerSourcePenalties no' >/etc/ssh/sshd_config.d/penalties.conf
fi
: >/var/log/sshd.log

cat >/usr/local/bin/eventually <<'END'
#!/bin/sh
wanted=0
if [ "$1" = ! ]; then wanted=1; shift; fi
for round in $(seq 1200); do
    "$@" >/dev/null 2>&1 </dev/null
    case $?,$wanted in 0,0 | [1-9]*,1) exit 0 ;; esac
    sleep 0.05
done
echo "not within a minute: $*" >&2
exit 1
END
chmod 755 /usr/local/bin/eventually

. /world/setup
start_server

# What the user does, and what has come of it.
seen=/world/$client-$server
set +e
setsid -w setpriv --reuid me --regid me --init-groups env -i HOME=/home/me USER=me LOGNAME=me SHELL=/bin/bash \
    PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin LANG=C.UTF-8 TERM=xterm \
    bash -c 'cd && . /world/client' </dev/null >$seen/out 2>$seen/err
echo $? >$seen/status
. /world/look >$seen/looked 2>&1
cat /var/log/sshd*.log >$seen/log 2>/dev/null
exit 0
