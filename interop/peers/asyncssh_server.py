"""Serves commands and SFTP to whoever holds a key of the lab. Argument: folder of the lab. Prints its port, ends with stdin."""

import asyncio
import os
import sys

import asyncssh

lab = sys.argv[1]


async def process(proc):
    shell = await asyncio.create_subprocess_shell(
        proc.command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE)
    await proc.redirect(stdin=shell.stdin, stdout=shell.stdout, stderr=shell.stderr)
    code = await shell.wait()
    await proc.stdout.drain()
    proc.exit(code)


async def main():
    server = await asyncssh.listen(
        "127.0.0.1", 0, server_host_keys=[os.path.join(lab, name) for name in ("host_ed25519", "host_rsa", "host_ecdsa")],
        authorized_client_keys=os.path.join(lab, "authorized_keys"), process_factory=process, sftp_factory=True,
        encoding=None, rekey_bytes=20 << 20)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    server.close()


asyncio.run(main())
