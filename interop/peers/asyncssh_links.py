"""Symbolic links and many files with asyncssh's SFTP client. Arguments: port, user, directory of the lab."""

import asyncio
import os
import sys

import asyncssh

port, user, lab = int(sys.argv[1]), sys.argv[2], sys.argv[3]


async def main():
    def far(*name):
        return os.path.join(lab, "far", *name)

    def here(*name):
        return os.path.join(lab, *name)

    async with asyncssh.connect("127.0.0.1", port, username=user, known_hosts=None, config=None, agent_path=None,
                                client_keys=[here("user_ed25519")]) as conn:
        async with conn.start_sftp_client() as sftp:
            await sftp.put(here("blob"), far("up"))
            await sftp.get(far("up"), here("down"))
            await sftp.put(here("small"), far("small"), recurse=True)
            await sftp.get(far("small"), here("small.down"), recurse=True)
            assert sorted(os.listdir(here("small"))) == sorted(os.listdir(here("small.down")))
            await sftp.symlink(far("up"), far("link"))
            await sftp.symlink("nowhere", far("link2"))
            assert await sftp.readlink(far("link")) == far("up")
            async with sftp.open(far("moved.from"), "w") as file:
                await file.write("moved")
            await sftp.rename(far("moved.from"), far("moved"))
            async with sftp.open(far("gone"), "w") as file:
                await file.write("gone")
            await sftp.remove(far("gone"))
    print("done")


asyncio.run(main())
