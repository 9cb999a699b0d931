"""Runs a command and copies `blob` both ways over a pipe and over SFTP. Arguments: port, user, directory of the lab."""

import asyncio
import os
import sys

import asyncssh

port, user, lab = int(sys.argv[1]), sys.argv[2], sys.argv[3]
blob = os.path.join(lab, "blob")


async def main():
    async with asyncssh.connect(
        "127.0.0.1", port, username=user, config=None, agent_path=None,
        known_hosts=os.path.join(lab, "known_hosts"),
        client_keys=[os.path.join(lab, "user_rsa")], rekey_bytes=20 << 20,
    ) as conn:
        ran = await conn.run("echo out; echo err >&2; exit 7")
        assert (ran.stdout, ran.stderr, ran.exit_status) == ("out\n", "err\n", 7), ran
        await conn.run(f"cat > '{lab}/pipe.up'", stdin=blob, check=True, encoding=None)
        await conn.run(f"cat '{lab}/pipe.up'", stdout=os.path.join(lab, "pipe.down"), check=True, encoding=None)
        async with conn.start_sftp_client() as sftp:
            await sftp.put(blob, os.path.join(lab, "sftp.up"))
            await sftp.get(os.path.join(lab, "sftp.up"), os.path.join(lab, "sftp.down"))


asyncio.run(main())
