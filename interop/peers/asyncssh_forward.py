"""Forwards as asyncssh's client or server does. Arguments: `server` LAB, or `client` LAB PORT USER TARGET.

The server prints its port; the client prints where it listens: a local port, a remote port, a SOCKS port, a local socket, a remote
socket. The ports lead to the port TARGET, the sockets to LAB/sum.sock. Both end with their standard input."""

import asyncio
import os
import sys

import asyncssh

role, lab = sys.argv[1:3]


class Server(asyncssh.SSHServer):
    def connection_requested(self, dest_host, dest_port, orig_host, orig_port):
        return True

    def server_requested(self, listen_host, listen_port):
        return True

    def unix_connection_requested(self, dest_path):
        return True

    def unix_server_requested(self, listen_path):
        return True


async def until_stdin_ends():
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


async def serve():
    server = await asyncssh.listen(
        "127.0.0.1", 0, server_factory=Server, server_host_keys=[os.path.join(lab, "host_ed25519")],
        authorized_client_keys=os.path.join(lab, "authorized_keys"))
    print(server.sockets[0].getsockname()[1], flush=True)
    await until_stdin_ends()
    server.close()


async def connect():
    port, user, target = int(sys.argv[3]), sys.argv[4], int(sys.argv[5])
    async with asyncssh.connect(
            "127.0.0.1", port, username=user, client_keys=[os.path.join(lab, "user_ed25519")],
            known_hosts=os.path.join(lab, "known_hosts"), config=None) as connection:
        local = await connection.forward_local_port("127.0.0.1", 0, "127.0.0.1", target)
        remote = await connection.forward_remote_port("127.0.0.1", 0, "127.0.0.1", target)
        socks = await connection.forward_socks("127.0.0.1", 0)
        here, there = os.path.join(lab, "here.sock"), os.path.join(lab, "there.sock")
        await connection.forward_local_path(here, os.path.join(lab, "sum.sock"))
        await connection.forward_remote_path(there, os.path.join(lab, "sum.sock"))
        print(local.get_port(), remote.get_port(), socks.get_port(), here, there, flush=True)
        await until_stdin_ends()


asyncio.run(serve() if role == "server" else connect())
