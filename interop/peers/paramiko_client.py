"""Runs a command and copies `blob` both ways over a pipe and over SFTP. Arguments: port, user, directory of the lab."""

import os
import sys

import paramiko

port, user, lab = int(sys.argv[1]), sys.argv[2], sys.argv[3]
blob = os.path.join(lab, "blob")

client = paramiko.SSHClient()
client.load_host_keys(os.path.join(lab, "known_hosts"))
client.set_missing_host_key_policy(paramiko.RejectPolicy())
client.connect("127.0.0.1", port, user, key_filename=os.path.join(lab, "user_ed25519"),
               look_for_keys=False, allow_agent=False)
# The client asks for new keys as well, at another rhythm than the server.
client.get_transport().packetizer.REKEY_BYTES = 20 << 20

_, out, err = client.exec_command("echo out; echo err >&2; exit 7")
assert out.read() == b"out\n" and err.read() == b"err\n"
assert out.channel.recv_exit_status() == 7

stdin, out, _ = client.exec_command(f"cat > '{lab}/pipe.up'")
with open(blob, "rb") as source:
    while chunk := source.read(1 << 16):
        stdin.write(chunk)
stdin.channel.shutdown_write()
assert out.channel.recv_exit_status() == 0

_, out, _ = client.exec_command(f"cat '{lab}/pipe.up'")
with open(os.path.join(lab, "pipe.down"), "wb") as sink:
    while chunk := out.read(1 << 16):
        sink.write(chunk)
assert out.channel.recv_exit_status() == 0

sftp = client.open_sftp()
sftp.put(blob, os.path.join(lab, "sftp.up"))
sftp.get(os.path.join(lab, "sftp.up"), os.path.join(lab, "sftp.down"))
assert sftp.stat(os.path.join(lab, "sftp.up")).st_size == os.path.getsize(blob)
client.close()
