"""Switches to the NONE cipher as HPN-SSH's client does, and copies `blob` both ways over a pipe and over SFTP.
Arguments: port, user, directory of the lab, MAC or - for the usual ones. With a fifth argument the switch comes before the login."""

import asyncio
import os
import sys

import asyncssh

import hpn_none

port, user, lab, mac = int(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4]
blob = os.path.join(lab, "blob")
early = {"encryption_algs": ["none"]} if len(sys.argv) > 5 else {}


async def main():
    async with asyncssh.connect(
        "127.0.0.1", port, username=user, config=None, agent_path=None,
        known_hosts=os.path.join(lab, "known_hosts"),
        client_keys=[os.path.join(lab, "user_rsa")], rekey_bytes=4 << 20, **early,
    ) as conn:
        hpn_none.switch(conn, None if mac == "-" else [mac.encode()])
        ran = await conn.run("echo out; echo err >&2; exit 7")
        assert (ran.stdout, ran.stderr, ran.exit_status) == ("out\n", "err\n", 7), ran
        used = conn.get_extra_info("send_cipher"), conn.get_extra_info("recv_cipher"), conn.get_extra_info("send_mac")
        print(*used)
        await conn.run(f"cat > '{lab}/pipe.up'", stdin=blob, check=True, encoding=None)
        await conn.run(f"cat '{lab}/pipe.up'", stdout=os.path.join(lab, "pipe.down"), check=True, encoding=None)
        async with conn.start_sftp_client() as sftp:
            await sftp.put(blob, os.path.join(lab, "sftp.up"))
            await sftp.get(os.path.join(lab, "sftp.up"), os.path.join(lab, "sftp.down"))
        # A terminal is refused where nothing is encrypted.
        try:
            process = await conn.create_process("tty", term_type="xterm")
        except asyncssh.ChannelOpenError:
            print("no terminal")
        else:
            print("terminal", (await process.wait()).stdout)


asyncio.run(main())
