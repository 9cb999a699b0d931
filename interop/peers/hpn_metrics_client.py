"""HPN-SSH's side of stack-metrics@hpnssh.org, written from its description: asks a server and prints what it answers.

Arguments: port, user, directory with the key. Prints "name value" lines; the object is taken apart byte by byte here, so that nothing
of ours is trusted.
"""
import socket
import sys

import paramiko

port, user, folder = int(sys.argv[1]), sys.argv[2], sys.argv[3]
paramiko.Transport._CLIENT_ID = "OpenSSH_10.2p1_hpn18.8.0"

transport = paramiko.Transport(socket.create_connection(("127.0.0.1", port)))
transport.local_version = sys.argv[4] if len(sys.argv) > 4 else "SSH-2.0-OpenSSH_10.2p1_hpn18.8.0"
transport.start_client(timeout=60)
transport.auth_publickey(user, paramiko.Ed25519Key.from_private_key_file(folder + "/user_ed25519"))
answer = transport.global_request("stack-metrics@hpnssh.org", wait=True)
if answer is None:
    print("refused")
    sys.exit(1)
blob = answer.get_binary()
assert answer.get_remainder() == b"", "something behind the string"


def size(at):
    if blob[at] < 128:
        return blob[at], at + 1
    return int.from_bytes(blob[at : at + 4], "big") & 0x7FFFFFFF, at + 4


assert blob[0] == 0xE2, blob[:4]
total, at = size(1)
assert total == len(blob), (total, len(blob))
count, at = size(at)
for _ in range(count):
    length = blob[at]
    name = blob[at + 1 : at + 1 + length].decode("ascii")
    kind = blob[at + 1 + length]
    at += 2 + length
    if kind == 0xA0:
        # Text, which only a peer that calls itself Longhaul may be sent: HPN-SSH's reader takes every value for a number.
        length, at = size(at)
        assert blob[at + length] == 0
        print(name, blob[at : at + length].decode("ascii"))
        at += length + 1
        continue
    width = {0x20: 1, 0x40: 2, 0x60: 4, 0x80: 8}[kind]
    print(name, int.from_bytes(blob[at : at + width], "big"))
    at += width
assert at == total
transport.close()
