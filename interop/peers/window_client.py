"""Prints the window that a server grants to a session when it begins. Arguments: port, user, directory of the lab."""

import asyncio
import os
import sys

import asyncssh

port, user, lab = int(sys.argv[1]), sys.argv[2], sys.argv[3]


async def main():
    async with asyncssh.connect(
        "127.0.0.1", port, username=user, config=None, agent_path=None,
        known_hosts=os.path.join(lab, "known_hosts"), client_keys=[os.path.join(lab, "user_rsa")],
    ) as conn:
        process = await conn.create_process("true")
        print(process.channel._send_window)


asyncio.run(main())
