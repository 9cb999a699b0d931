"""Serves commands and SFTP to holders of a key of the lab. Arguments: directory of the lab; `none`
or `none-mac` for an end that allows these as HPN-SSH does, `claims-none` for one that has nothing else before the login.
Prints its port, ends with stdin."""

import asyncio
import os
import sys

import asyncssh

lab = sys.argv[1]
mode = sys.argv[2] if len(sys.argv) > 2 else ""
if mode:
    import hpn_none


class Server(asyncssh.SSHServer):
    def connection_made(self, conn):
        self.conn = conn
        if mode == "claims-none":
            conn._enc_algs, conn._mac_algs = [b"none"], [b"none"]

    def auth_completed(self):
        if mode.startswith("none"):
            hpn_none.allow(self.conn, mode == "none-mac")



async def pump(source, sink, end):
    """Copies until the source ends; `end` closes the sink's side."""
    while data := await source.read(1 << 16):
        sink.write(data)
        await sink.drain()
    end()


async def process(proc):
    if proc.command == "window":
        # What the client's side of the channel takes at first.
        proc.stdout.write(b"%d\n" % proc.channel._send_window)
        return proc.exit(0)
    pipe = asyncio.subprocess.PIPE
    shell = await asyncio.create_subprocess_shell(proc.command, stdin=pipe, stdout=pipe, stderr=pipe)
    feed = asyncio.create_task(pump(proc.stdin, shell.stdin, shell.stdin.close))
    # The exit status goes out behind all output.
    await asyncio.gather(pump(shell.stdout, proc.stdout, lambda: None), pump(shell.stderr, proc.stderr, lambda: None))
    code = await shell.wait()
    feed.cancel()
    proc.exit(code)


async def main():
    server = await asyncssh.create_server(
        Server, "127.0.0.1", 0, server_host_keys=[os.path.join(lab, name) for name in ("host_ed25519", "host_rsa", "host_ecdsa")],
        authorized_client_keys=os.path.join(lab, "authorized_keys"), process_factory=process, sftp_factory=True,
        encoding=None, rekey_bytes=20 << 20)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    server.close()


asyncio.run(main())
