#!/bin/sh
# Follows docs/containers.md with Podman. Run by `cargo xtask dist --test` as root in namespaces of its own (mounts,
# processes, network). $1: directory of the images; $2: an unpacked image, whose clients are used; $3: an empty
# directory; $4: the page's commands. Exits with status 77 where Podman cannot do what the page needs, which a container
# of a system program (Perl) tells first. From then on, each failure is one of the images or of the page.
set -eu
export LC_ALL=C
images=$1 clients=$2/usr/bin here=$3 commands=$4

fail() { echo "FAILED: $*" >&2; podman logs sftp >&2 || true; exit 1; }
step() { echo "--- $*"; }
# Runs the command of the page that begins with $1 and contains $2.
page() {
    line=$(sed -e ':next' -e '/\\$/{N;s/\\\n *//;b next' -e '}' "$commands" \
        | awk -v start="$1" -v part="${2:-}" 'index($0, start) == 1 && index($0, part) { print; exit }')
    [ -n "$line" ] || fail "docs/containers.md has no command that begins with $1"
    eval "$line" > "$here/said.log" 2>&1 || { cat "$here/said.log" >&2; fail "$line"; }
}
listens() {
    for _ in $(seq 300); do
        if podman logs "$1" 2>&1 | grep -q 'Server listening on 0.0.0.0 port 2222'; then return 0; fi
        sleep 0.1
    done
    fail "the server in $1 does not come"
}
sftp() { "$clients/lhsftp" -F "$here/config" -q -b "$@" > "$here/said.log" 2>&1; }

# Where Podman never ran, its directory does not exist. It has caches there, wherever it stores images.
made=
leave() {
    umount -l /var/lib/containers 2> /dev/null || true
    [ -z "$made" ] || rmdir /var/lib/containers || true
}
# What Podman stores stays in the directory, and what it mounts in this namespace.
prepare() {
    mkdir "$here/containers" "$here/networks" "$here/home" "$here/home/.ssh" &&
        mount --make-rprivate / || return 1
    trap leave EXIT
    if [ ! -d /var/lib/containers ]; then mkdir /var/lib/containers && made=yes || return 1; fi
    mount --bind "$here/containers" /var/lib/containers && mount -t tmpfs run /run && ip link set lo up || return 1
    # Runtimes refuse a mixture of both versions of control groups. Containers get none.
    umount /sys/fs/cgroup/unified 2> /dev/null || true
    printf '[engine]\ncgroup_manager = "cgroupfs"\nevents_logger = "file"\n[containers]\ncgroups = "disabled"\n%s\n' \
        'log_driver = "k8s-file"' > "$here/containers.conf" &&
        printf '[network]\nnetwork_config_dir = "%s"\n' "$here/networks" >> "$here/containers.conf" &&
        printf '[storage]\ndriver = "vfs"\ngraphroot = "%s"\nrunroot = "/run/containers/storage"\n' \
            "$here/containers/storage" > "$here/storage.conf"
}
prepare || exit 77
export CONTAINERS_CONF="$here/containers.conf" CONTAINERS_STORAGE_CONF="$here/storage.conf" HOME="$here/home"
cd "$here"

# Everything that the page asks of the engine, with Perl in place of our server. It has no use for its modules.
probe() {
    perl=$(command -v perl) && mkdir "$here/probe" &&
        cp -L --parents "$perl" $(ldd "$perl" | grep -o '/[^ ]*') "$here/probe" &&
        tar -C "$here/probe" -c . | podman import -q - probe &&
        podman volume create probe && [ -d "$(podman volume inspect -f '{{.Mountpoint}}' probe)" ] &&
        printf 'a mounted file\n' > "$here/mounted" || return 1
    for rights in "SETUID,SETGID,SYS_CHROOT 0 22" "NET_BIND_SERVICE 1000 2222"; do
        set -- $rights
        # AF_INET, SOCK_STREAM, and SOL_SOCKET with SO_REUSEADDR, as numbers.
        podman run -d --name probe --read-only --cap-drop ALL --cap-add "$1" --security-opt no-new-privileges \
            --user "$2" -v probe:/data -v ./mounted:/etc/mounted:ro -p "$3:2222" probe "$perl" -e '
                socket(S, 2, 1, 6) && setsockopt(S, 1, 2, 1) && bind(S, pack("Sna4x8", 2, 2222, "")) && listen(S, 5) || die $!;
                $| = 1; print "listening\n";
                while (accept(C, S)) { syswrite C, "Perl\n"; close C; }' || return 1
        for _ in $(seq 300); do
            ! podman logs probe 2>&1 | grep -q listening || break
            sleep 0.1
        done
        address=$(podman inspect -f '{{.NetworkSettings.IPAddress}}' probe) || return 1
        for to in "127.0.0.1 $3" "$address 2222"; do
            answer=$("$perl" -e 'alarm 20; socket(S, 2, 1, 6);
                connect(S, pack("Sna4x8", 2, $ARGV[1], pack("C4", split(/\./, $ARGV[0])))) && print <S>;' $to) || return 1
            [ "$answer" = Perl ] || { echo "no answer of $to"; return 1; }
        done
        podman rm -f probe || return 1
    done
    podman volume rm probe && podman rmi probe
}
step "probe"
probe > said.log 2>&1 || { cat said.log; podman logs probe || true; exit 77; }

"$clients/lhssh-keygen" -q -t ed25519 -N '' -f "$HOME/.ssh/id_ed25519"
printf 'Host *\nIdentityFile %s\nBatchMode yes\nStrictHostKeyChecking accept-new\nUserKnownHostsFile %s\n' \
    "$HOME/.ssh/id_ed25519" "$HOME/.ssh/known_hosts" > config
head -c 20000000 /dev/urandom > blob
printf 'put blob\nget blob back\n' > batch
# As if it were the user's own configuration.
mkdir programs
printf '#!/bin/sh\nexec %s/lhsftp -F %s/config "$@"\n' "$clients" "$here" > programs/lhsftp
chmod 755 programs/lhsftp
PATH=$here/programs:$PATH

step "podman load"
for image in "$images"/longhaul-*-oci-x86_64.tar "$images"/longhaul-*-oci-root-x86_64.tar; do
    podman load --quiet -i "$image" > said.log 2>&1 || { cat said.log; fail "podman load $image"; }
done
name=$(grep -o 'longhaul:[0-9.]*' "$commands" | head -n 1)
for image in "$name" "$name-root"; do
    podman image exists "$image" || { podman images; fail "no image $image"; }
done
podman run --rm -p 2222:2222 "$name" lhssh -V > said.log 2>&1 || { cat said.log; fail "no program of $name runs"; }

step "SFTP for one user"
page "podman volume create"
page "podman run --rm"
page "cp ~/.ssh/id_ed25519.pub"
page "chown -R 1000:1000"
page "podman run -d --name sftp" "--cap-drop ALL --security-opt"
listens sftp
page "lhsftp -P 2222" < batch
cmp blob back || fail "another file came back"
# The port is the jump host's from here on.
podman rm -f sftp > said.log 2>&1
podman run -d --name sftp -v keys:/keys:ro -v data:/data "$name" > said.log 2>&1
host=$(podman inspect -f '{{.NetworkSettings.IPAddress}}' sftp)
listens sftp

step "a jump host"
sed "s/10\.0\.0\.5:22 10\.0\.0\.6:22/$host:2222/" "$commands" > jump
commands=$here/jump
page "podman run -d --name jump"
listens jump
rm back
sftp batch -J longhaul@localhost:2222 -P 2222 "longhaul@$host" || { cat said.log; fail "no connection through the jump host"; }
cmp blob back || fail "another file came through the jump host"
! sftp batch -J longhaul@localhost:2222 -P 2223 "longhaul@$host" || fail "PermitOpen permits other ports"
podman rm -f jump sftp > said.log 2>&1

step "SFTP for several users"
grep '^root:x:0\|^lhsshd:x:\|^ada:x:' "$commands" > passwd
cp "$HOME/.ssh/id_ed25519.pub" ada.pub
page 'KEYS='
page 'mkdir -p "$KEYS'
page 'cp ada.pub'
page 'chown -R 0:0'
page "podman run -d --name sftp" "SETUID"
listens sftp
rm back
sftp batch ada@localhost || { cat said.log; fail "no SFTP for one of several users"; }
cmp blob back || fail "another file came back"
[ "$(stat -c %u "$DATA/ada/files/blob")" = 2001 ] || fail "the file belongs to another user"
podman rm -f sftp > said.log 2>&1
podman volume rm keys data > said.log 2>&1
podman rmi --all --force > said.log 2>&1
echo "passed: podman"
