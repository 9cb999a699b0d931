"""Exercises all of paramiko's client against one server. Arguments: port, user, directory of the lab, a user with a password and the
password (or `-` and `-`). Prints each part's name when it begins, so that a failure tells where."""

import hashlib
import io
import os
import socket
import stat
import sys
import threading
import time

import paramiko

port, user, lab, typed_user, password = int(sys.argv[1]), *sys.argv[2:]
room = os.path.join(lab, "room")
os.mkdir(room)


def path(name):
    return os.path.join(room, name)


def key(kind="ed25519"):
    kinds = {"ed25519": paramiko.Ed25519Key, "rsa": paramiko.RSAKey, "ecdsa": paramiko.ECDSAKey}
    return kinds[kind](filename=os.path.join(lab, "user_" + kind))


def connect(**options):
    """A transport after the key exchange; options name the only algorithm to use."""
    transport = paramiko.Transport(("127.0.0.1", port), disabled_algorithms=options.pop("disabled", None))
    transport.use_compression(options.pop("compress", False))
    security = transport.get_security_options()
    for name, value in options.items():
        setattr(security, name, (value,))
    transport.start_client(timeout=20)
    return transport


def login(**options):
    transport = connect(**options)
    assert transport.auth_publickey(user, key()) == []
    return transport


def run(transport, command, data=b""):
    channel = transport.open_session(timeout=20)
    channel.exec_command(command)
    channel.sendall(data)
    channel.shutdown_write()
    out = channel.makefile("rb").read()
    err = channel.makefile_stderr("rb").read()
    while not channel.closed:
        time.sleep(0.01)
    return channel.recv_exit_status(), out, err


def fails(kind, work, *args, **named):
    try:
        work(*args, **named)
    except kind as error:
        return error
    raise AssertionError(f"{work} does not fail")


def part(work):
    print(work.__name__, flush=True)
    work()


def algorithms():
    offered = paramiko.Transport.__dict__
    data = os.urandom(50_000)
    rounds = [{"kex": name} for name in offered["_preferred_kex"]]
    rounds += [{"ciphers": name} for name in offered["_preferred_ciphers"]]
    rounds += [{"digests": name} for name in offered["_preferred_macs"]]
    rounds += [{"key_types": name} for name in offered["_preferred_keys"] if "dss" not in name and "384" not in name and "521" not in name]
    rounds += [{"compress": True}]
    for options in rounds:
        transport = login(**options)
        assert run(transport, "cat", data) == (0, data, b""), options
        for name in ("ciphers", "digests", "kex", "key_types"):
            used = {"ciphers": transport.remote_cipher, "digests": transport.remote_mac, "kex": None, "key_types": transport.host_key_type}[name]
            assert used is None or options.get(name, used) == used, (options, used)
        transport.close()
    known = paramiko.HostKeys(os.path.join(lab, "known_hosts")).lookup(f"[127.0.0.1]:{port}")
    transport = connect(key_types="ssh-ed25519")
    assert transport.get_remote_server_key() == known["ssh-ed25519"]
    transport.close()


def keys_of_users():
    for kind, disabled in [
        ("ed25519", []), ("ecdsa", []), ("rsa", []), ("rsa", ["rsa-sha2-512"]), ("rsa", ["rsa-sha2-512", "rsa-sha2-256"]),
    ]:
        transport = connect(disabled={"pubkeys": disabled})
        assert transport.auth_publickey(user, key(kind)) == [], (kind, disabled)
        transport.close()
    certified = paramiko.Ed25519Key(filename=os.path.join(lab, "certified"))
    transport = connect()
    fails(paramiko.AuthenticationException, transport.auth_publickey, user, certified)
    transport.close()
    certified.load_certificate(os.path.join(lab, "certified-cert.pub"))
    transport = connect()
    assert transport.auth_publickey(user, certified) == []
    transport.close()
    # In the agent, as the usual client looks for them.
    client = paramiko.SSHClient()
    client.load_host_keys(os.path.join(lab, "known_hosts"))
    client.connect("127.0.0.1", port, user, look_for_keys=False, allow_agent=True)
    assert len(paramiko.Agent().get_keys()) == 3
    channel = client.get_transport().open_session()
    paramiko.agent.AgentRequestHandler(channel)
    channel.exec_command("ssh-add -l")
    assert channel.makefile("rb").read().count(b"SHA256:") == 3
    client.close()


def passwords():
    transport = connect()
    refused = fails(paramiko.BadAuthenticationType, transport.auth_none, typed_user)
    assert set(refused.allowed_types) == {"publickey", "password", "keyboard-interactive"}, refused.allowed_types
    assert b"Be welcome" in transport.get_banner()
    fails(paramiko.AuthenticationException, transport.auth_password, typed_user, "wrong", fallback=False)
    assert transport.auth_password(typed_user, password, fallback=False) == [] and transport.is_authenticated()
    assert run(transport, "id -un")[1].decode().strip() == typed_user
    transport.close()
    transport = connect()
    asked = []

    def answer(title, instructions, prompts):
        asked.extend(prompts)
        return [password for _ in prompts]

    assert transport.auth_interactive(typed_user, answer) == []
    assert [echo for text, echo in asked if "assword" in text] == [False], asked
    transport.close()


def commands():
    transport = login()
    assert run(transport, "echo out; echo err >&2; exit 41") == (41, b"out\n", b"err\n")
    assert run(transport, "kill -TERM $$")[0] == -1
    channel = transport.open_session()
    channel.update_environment({"FROM_TEST": "one", "LC_PAPER": "x"})
    channel.exec_command("printf '%s|%s' \"$FROM_TEST\" \"$LC_PAPER\"")
    assert channel.makefile().read() == b"one|"
    channel = transport.open_session()
    channel.set_combine_stderr(True)
    channel.exec_command("echo a; echo b >&2")
    assert sorted(channel.makefile("r").readlines()) == ["a\n", "b\n"]
    assert channel.recv_exit_status() == 0 and channel.exit_status_ready()
    # More than a window, both ways at once.
    data = os.urandom(3_000_000)
    channel = transport.open_session()
    channel.exec_command("tee /dev/stderr")
    threading.Thread(target=lambda: (channel.sendall(data), channel.shutdown_write()), daemon=True).start()
    errors = []
    reader = threading.Thread(target=lambda: errors.append(channel.makefile_stderr("rb").read()))
    reader.start()
    assert channel.makefile("rb").read() == data
    reader.join()
    assert errors == [data] and channel.recv_exit_status() == 0
    # Time limits.
    channel = transport.open_session()
    channel.settimeout(0.1)
    channel.exec_command("sleep 60")
    fails(socket.timeout, channel.recv, 1)
    channel.close()
    transport.close()
    # Many sessions at once, and one too many.
    transport = login()
    channels = [transport.open_session() for _ in range(10)]
    refused = fails(paramiko.ChannelException, transport.open_session)
    assert refused.code == 2, refused.code
    for index, channel in enumerate(channels):
        channel.exec_command(f"read x; exit {index}")
    for channel in channels:
        channel.sendall(b"go\n")
    assert [channel.recv_exit_status() for channel in channels] == list(range(10))
    for channel in channels:
        channel.close()
    channel = transport.open_session()
    fails(paramiko.SSHException, channel.invoke_subsystem, "no-such-subsystem")
    transport.set_keepalive(1)
    transport.send_ignore(300)
    transport.global_request("no-such-request@example.com", wait=True)
    assert transport.is_active()
    transport.close()


def terminals():
    transport = login()
    channel = transport.open_session()
    channel.get_pty("vt100", 91, 17)
    channel.exec_command("echo $TERM; stty size; read x; stty size; read x; tty -s && echo tty")
    lines = channel.makefile("r")
    assert [lines.readline().strip() for _ in range(2)] == ["vt100", "17 91"]
    channel.resize_pty(120, 44)
    channel.sendall(b"x\n")
    assert [lines.readline().strip() for _ in range(2)] == ["x", "44 120"]
    channel.sendall(b"y\n")
    assert [lines.readline().strip() for _ in range(2)] == ["y", "tty"]
    channel.close()
    shell = transport.open_session()
    shell.get_pty()
    shell.invoke_shell()
    shell.sendall(b"PS1=; stty -echo; echo $((40+2))' is it'; exit 5\n")
    assert b"42 is it" in shell.makefile("rb").read()
    assert shell.recv_exit_status() == 5
    # Ctrl-C reaches what runs.
    channel = transport.open_session()
    channel.get_pty()
    channel.exec_command("trap 'echo caught; exit 9' INT; echo ready; while :; do sleep 0.05; done")
    lines = channel.makefile("r")
    assert lines.readline().strip() == "ready"
    channel.sendall(b"\x03")
    assert b"caught" in lines.read() and channel.recv_exit_status() == 9
    transport.close()


def key_exchanges():
    transport = login()
    transport.packetizer.REKEY_BYTES = 1 << 18
    before, data = transport.session_id, os.urandom(2_000_000)
    # Paramiko waits for ever where a channel closes while it exchanges keys, so that comes a little later.
    assert run(transport, "cat; sleep 0.3", data) == (0, data, b"")
    transport.renegotiate_keys()
    assert run(transport, "cat; sleep 0.3", data) == (0, data, b"") and transport.session_id == before
    sftp = transport.open_sftp_client()
    sftp.putfo(io.BytesIO(data), path("rekeyed"))
    transport.renegotiate_keys()
    back = io.BytesIO()
    sftp.getfo(path("rekeyed"), back)
    assert back.getvalue() == data
    transport.close()


def forwards():
    transport = login()
    channel = transport.open_channel("direct-tcpip", ("127.0.0.1", port), ("127.0.0.1", 1))
    assert channel.recv(4) == b"SSH-"
    channel.close()
    closed = socket.create_server(("127.0.0.1", 0))
    nobody = closed.getsockname()
    closed.close()
    assert fails(paramiko.ChannelException, transport.open_channel, "direct-tcpip", nobody, ("127.0.0.1", 1)).code == 2
    assert fails(paramiko.ChannelException, transport.open_channel, "no-such-kind").code == 3
    remote = transport.request_port_forward("127.0.0.1", 0)
    mine = socket.create_connection(("127.0.0.1", remote))
    theirs = transport.accept(20)
    mine.sendall(b"there")
    assert theirs.recv(5) == b"there"
    theirs.sendall(b"back")
    assert mine.recv(4) == b"back"
    theirs.close()
    assert mine.recv(1) == b""
    transport.cancel_port_forward("127.0.0.1", remote)
    fails(ConnectionRefusedError, socket.create_connection, ("127.0.0.1", remote))
    transport.close()


def files():
    transport = login()
    sftp = transport.open_sftp_client()
    data = os.urandom(1_300_000)
    progress = []
    with open(path("local"), "wb") as local:
        local.write(data)
    done = sftp.put(path("local"), path("put"), callback=lambda now, all: progress.append((now, all)), confirm=True)
    assert done.st_size == len(data) and progress[-1] == (len(data), len(data))
    sftp.get(path("put"), path("got"))
    assert open(path("got"), "rb").read() == data
    assert sftp.putfo(io.BytesIO(b""), path("empty")).st_size == 0
    # The current directory.
    assert sftp.getcwd() is None and sftp.normalize(room + "/../room/./put") == os.path.realpath(path("put"))
    sftp.chdir(room)
    assert sftp.getcwd() == os.path.realpath(room) and sftp.stat("put").st_size == len(data)
    # The modes of open.
    with sftp.open("modes", "w") as file:
        file.write("one\ntwo\n")
        file.writelines(["three\n", "four"])
    with sftp.open("modes", "a") as file:
        file.write("\nfive\n")
    with sftp.open("modes") as file:
        assert file.readline() == "one\n" and file.readlines()[-1] == "five\n" and not file.writable()
    with sftp.open("modes", "r+") as file:
        file.seek(4)
        file.write("TWO")
        file.seek(-5, file.SEEK_END)
        assert file.tell() == sftp.stat("modes").st_size - 5 and file.read() == b"five\n"
        file.truncate(8)
        assert file.stat().st_size == 8
        file.chmod(0o600)
        file.utime((1, 2))
        file.chown(os.getuid(), os.getgid())
        assert file.check("sha256") == hashlib.sha256(b"one\nTWO\n").digest()
    assert sftp.open("modes").read() == b"one\nTWO\n" and stat.S_IMODE(sftp.stat("modes").st_mode) == 0o600
    with sftp.open("modes", "w+") as file:
        file.write(b"again")
        file.seek(0)
        assert file.read() == b"again"
    fails(OSError, sftp.open, "modes", "x")
    with sftp.open("fresh", "wx") as file:
        file.set_pipelined(True)
        for at in range(0, len(data), 10_000):
            file.write(data[at:at + 10_000])
    assert sftp.stat("fresh").st_size == len(data)
    # Reading ahead, and here and there.
    with sftp.open("fresh", "rb", 1 << 16) as file:
        file.prefetch(len(data))
        assert file.read(1000) == data[:1000] and file.read() == data[1000:]
    with sftp.open("fresh") as file:
        places = [(0, 10), (1_000_000, 200_000), (5, 70_000), (len(data) - 3, 3)]
        assert list(file.readv(places)) == [data[at:at + size] for at, size in places]
        buffer = bytearray(100)
        file.seek(7)
        assert file.readinto(buffer) == 100 and bytes(buffer) == data[7:107]
    # Attributes.
    sftp.chmod("fresh", 0o640)
    sftp.utime("fresh", (1_000_000_000, 1_100_000_000))
    sftp.chown("fresh", os.getuid(), os.getgid())
    sftp.truncate("fresh", 77)
    found = sftp.stat("fresh")
    assert (found.st_size, stat.S_IMODE(found.st_mode), found.st_atime) == (77, 0o640, 1_000_000_000)
    assert (found.st_uid, found.st_gid) == (os.getuid(), os.getgid())
    sftp.utime("fresh", None)
    assert abs(sftp.stat("fresh").st_mtime - time.time()) < 100
    # Links, directories, names.
    sftp.symlink("fresh", "link")
    assert sftp.readlink("link") == "fresh" and stat.S_ISLNK(sftp.lstat("link").st_mode) and sftp.stat("link").st_size == 77
    sftp.mkdir("folder", 0o711)
    assert stat.S_IMODE(sftp.stat("folder").st_mode) == 0o711
    names = {f"größe {index} 'x'" for index in range(300)}
    for name in names:
        sftp.open("folder/" + name, "w").close()
    assert set(sftp.listdir("folder")) == names and len(sftp.listdir_attr("folder")) == 300
    assert {entry.filename for entry in sftp.listdir_iter("folder", read_aheads=20)} == names
    assert sftp.listdir_attr("folder")[0].longname.startswith("-rw")
    sftp.rename("fresh", "renamed")
    fails(OSError, sftp.rename, "renamed", "modes")
    sftp.posix_rename("renamed", "modes")
    assert sftp.stat("modes").st_size == 77
    fails(OSError, sftp.rmdir, "folder")
    for name in names:
        sftp.remove("folder/" + name)
    sftp.rmdir("folder")
    sftp.unlink("link")
    # Missing files are reported.
    assert isinstance(fails(OSError, sftp.stat, "missing"), FileNotFoundError)
    assert isinstance(fails(OSError, sftp.open, "missing/deep", "w"), FileNotFoundError)
    fails(OSError, sftp.readlink, "modes")
    fails(OSError, sftp.mkdir, "modes")
    # Several at once on one connection; one of them is not for several threads.
    clients = [sftp] + [paramiko.SFTPClient.from_transport(transport) for _ in range(3)]
    results = []

    def fetch(which):
        back = io.BytesIO()
        which.getfo(path("put"), back)
        results.append(back.getvalue() == data)

    threads = [threading.Thread(target=fetch, args=(which,)) for which in clients]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert results == [True] * 4
    [client.close() for client in clients]
    transport.close()


if "SKIP" not in os.environ: part(algorithms)
part(keys_of_users)
if typed_user != "-":
    part(passwords)
part(commands)
part(terminals)
part(key_exchanges)
part(forwards)
part(files)
print("done")
