"""A peer with HPN-SSH's identification, cipher name and limits, in both roles. It fails if the other end
sends or announces more than HPN-SSH handles:

- a packet longer than the 32,896 bytes that its key stream covers, or than 33 KiB, its limit after the login;
- more than 32 KiB of data in a channel packet;
- an announced packet of more than 32 KiB: HPN-SSH would send that much and corrupt it.

What it sends beyond 32,896 bytes is corrupted as HPN-SSH's would be, with a valid tag. It rekeys after each MiB.

Arguments: `server` LAB, or `client` LAB PORT USER; HPN_VERSION in the environment replaces the
identification. The server prints its port and ends with its standard input; the client moves data through
each kind of channel in both directions. A failure is written to LAB/hpn.failed; LAB/hpn.largest has the
largest data of one channel packet."""

import asyncio
import os
import sys

import asyncssh
from asyncssh import channel, connection, encryption
from asyncssh.constants import MSG_CHANNEL_DATA, MSG_CHANNEL_EXTENDED_DATA

KEY_STREAM = 32_896
LIMIT = 33 * 1024
DATA = 32 * 1024
VERSION = os.environ.get("HPN_VERSION", "OpenSSH_10.2p1_hpn18.8.0")
CIPHER = b"chacha20-poly1305-mt@hpnssh.org"
REKEY = 1 << 20
SIZE = 3_000_000

role, lab = sys.argv[1:3]
largest = 0


def failed(why):
    with open(os.path.join(lab, "hpn.failed"), "a") as file:
        file.write(why + "\n")
    print(why, file=sys.stderr, flush=True)
    os._exit(3)


def note(length):
    global largest
    if length > DATA:
        failed(f"{length} bytes of data in one channel packet")
    # The test takes the file away before it looks at the next channel.
    place = os.path.join(lab, "hpn.largest")
    fresh = not os.path.exists(place)
    if fresh or length > largest:
        largest = length
        with open(place + ".new", "w") as file:
            file.write(str(length))
        os.rename(place + ".new", place)


def announced(size):
    if size > DATA:
        failed(f"packets of {size} bytes announced")


def patch():
    encryption.register_encryption_alg(CIPHER, encryption.ChachaEncryption, "chacha20-poly1305", False)
    header, opened, confirmed = (
        connection.SSHConnection._recv_pkthdr, channel.SSHChannel.process_open, channel.SSHChannel.process_open_confirmation)
    accept, encrypt = channel.SSHChannel._accept_data, encryption.ChachaEncryption.encrypt_packet

    def recv_pkthdr(self):
        more = header(self)
        if more and self._recv_encryption and self._pktlen > min(KEY_STREAM, LIMIT):
            failed(f"a packet of {self._pktlen} bytes")
        return more

    def process_open(self, number, window, size, session):
        announced(size)
        return opened(self, number, window, size, session)

    def process_open_confirmation(self, number, window, size, packet):
        announced(size)
        return confirmed(self, number, window, size, packet)

    def accept_data(self, data, *more):
        note(len(data))
        return accept(self, data, *more)

    def encrypt_packet(self, seq, head, packet):
        # Past the key stream HPN-SSH combines the text with the bytes after it.
        garbled = bytes(byte ^ 0x5A for byte in packet[KEY_STREAM:])
        return encrypt(self, seq, head, packet[:KEY_STREAM] + garbled)

    connection.SSHConnection._recv_pkthdr = recv_pkthdr
    channel.SSHChannel.process_open = process_open
    channel.SSHChannel.process_open_confirmation = process_open_confirmation
    channel.SSHChannel._accept_data = accept_data
    encryption.ChachaEncryption.encrypt_packet = encrypt_packet


def path(name):
    return os.path.join(lab, name)


# Its name first, then the stock one, as HPN-SSH lists them.
OPTIONS = {"encryption_algs": [CIPHER.decode(), "chacha20-poly1305@openssh.com"], "rekey_bytes": REKEY}


# ---- server

class Server(asyncssh.SSHServer):
    def connection_requested(self, dest_host, dest_port, orig_host, orig_port):
        return True

    def server_requested(self, listen_host, listen_port):
        return True

    def unix_connection_requested(self, dest_path):
        return True

    def unix_server_requested(self, listen_path):
        return True


async def copy(source, sink, end):
    while data := await source.read(1 << 17):
        sink.write(data)
        await sink.drain()
    end()


async def process(proc):
    pipe = asyncio.subprocess.PIPE
    command = proc.command or path(proc.subsystem)
    shell = await asyncio.create_subprocess_shell(command, stdin=pipe, stdout=pipe, stderr=pipe)
    feed = asyncio.create_task(copy(proc.stdin, shell.stdin, shell.stdin.close))
    await asyncio.gather(copy(shell.stdout, proc.stdout, lambda: None), copy(shell.stderr, proc.stderr, lambda: None))
    code = await shell.wait()
    feed.cancel()
    proc.exit(code)


async def serve():
    server = await asyncssh.create_server(
        Server, "127.0.0.1", 0, server_version=VERSION, server_host_keys=[path("host_ed25519")],
        authorized_client_keys=path("authorized_keys"), process_factory=process, sftp_factory=True, encoding=None, **OPTIONS)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    server.close()


# ---- client

async def echo(reader, writer):
    await copy(reader, writer, lambda: None)
    writer.write_eof()


async def through(reader, writer, what):
    """Sends a stream that comes back."""
    sent = os.urandom(SIZE)

    async def send():
        writer.write(sent)
        await writer.drain()
        writer.write_eof()

    feed = asyncio.create_task(send())
    got = await reader.read(-1)
    await feed
    assert got == sent, what + " came back changed"
    print(what, flush=True)


async def connect():
    port, user = int(sys.argv[3]), sys.argv[4]
    target = await asyncio.start_server(echo, "127.0.0.1", 0)
    target_port = target.sockets[0].getsockname()[1]
    await asyncio.start_unix_server(echo, path("echo.sock"))
    async with asyncssh.connect(
            "127.0.0.1", port, username=user, client_version=VERSION, config=None, agent_path=None,
            known_hosts=path("known_hosts"), client_keys=[path("user_ed25519")], **OPTIONS) as conn:
        process = await conn.create_process("cat", encoding=None)
        await through(process.stdout, process.stdin, "session")
        process = await conn.create_process("cat >&2", encoding=None)
        await through(process.stderr, process.stdin, "extended data")
        data = os.urandom(SIZE)
        with open(path("local"), "wb") as file:
            file.write(data)
        for block in (16 << 10, 32 << 10, 255 << 10):
            async with conn.start_sftp_client() as sftp:
                await sftp.put(path("local"), path("put"), block_size=block)
                await sftp.get(path("put"), path("got"), block_size=block)
            for name in ("put", "got"):
                with open(path(name), "rb") as file:
                    assert file.read() == data, f"{name} differs, blocks of {block}"
        print("sftp", flush=True)
        await through(*await conn.open_connection("127.0.0.1", target_port), "direct-tcpip")
        await through(*await conn.open_unix_connection(path("echo.sock")), "direct-streamlocal")
        remote = await conn.forward_remote_port("127.0.0.1", 0, "127.0.0.1", target_port)
        await through(*await asyncio.open_connection("127.0.0.1", remote.get_port()), "forwarded-tcpip")
        await conn.forward_remote_path(path("remote.sock"), path("echo.sock"))
        await through(*await asyncio.open_unix_connection(path("remote.sock")), "forwarded-streamlocal")
    print("done", flush=True)


patch()
asyncio.run(serve() if role == "server" else connect())
