"""A server that calls itself HPN-SSH and answers stack-metrics@hpnssh.org, written from its description.

It serves one connection on standard input. Arguments: directory with the host key, and what to answer: "good", "late" (as
"good", and the second answer only after the command), "broken" (bytes that are no object) or "refuse". Every command waits until the
client has written five samples of its own (and has asked as often as the answers need), and succeeds. The congestion window is 10 plus the number of the request, and 1000 more once the command has ended.
"""
import socket
import sys
import threading
import time

import paramiko

folder, kind = sys.argv[1], sys.argv[2]
asked = 0
ended = threading.Event()


def number(value):
    for code, width in ((0x20, 1), (0x40, 2), (0x60, 4), (0x80, 8)):
        if value < 1 << (8 * width):
            return bytes([code]) + value.to_bytes(width, "big")


def long_size(value):
    return (value | 0x80000000).to_bytes(4, "big")


def answer(window):
    values = {"kernel_version": 0x060100, "tcpi_rtt": 12345, "tcpi_snd_cwnd": window, "tcpi_bytes_acked": 1 << 33}
    body = b"".join(bytes([len(n)]) + n.encode() + number(v) for n, v in values.items())
    # Sizes in their long form, which is allowed for all values.
    return b"\xe2" + long_size(9 + len(body)) + long_size(len(values)) + body


def samples():
    try:
        with open(f"{folder}/{kind}.local") as file:
            return sum('"seconds"' in line for line in file)
    except FileNotFoundError:
        return 0


class Server(paramiko.ServerInterface):
    def get_allowed_auths(self, username):
        return "publickey"

    def check_auth_publickey(self, username, key):
        return paramiko.AUTH_SUCCESSFUL

    def check_channel_request(self, kind, chanid):
        return paramiko.OPEN_SUCCEEDED

    def check_global_request(self, name, message):
        global asked
        if name != "stack-metrics@hpnssh.org":
            return False
        asked += 1
        if kind == "refuse":
            return False
        assert message.get_remainder() == b"", "fields where HPN-SSH sends none"
        window = 10 + asked + (1000 if ended.is_set() else 0)
        if kind == "late" and asked == 2:
            ended.wait()
            # Time for the client to notice that the session is over, while it has no answer.
            time.sleep(0.3)
        return (b"\xe2\x05nonsense" if kind == "broken" else answer(window),)

    def check_channel_exec_request(self, channel, command):
        def run():
            while samples() < 5 or asked < {"good": 4, "late": 2}.get(kind, 1):
                time.sleep(0.02)
            ended.set()
            channel.sendall(b"done\n")
            channel.send_exit_status(0)
            channel.close()

        threading.Thread(target=run, daemon=True).start()
        return True


transport = paramiko.Transport(socket.socket(fileno=0))
transport.local_version = "SSH-2.0-OpenSSH_10.2p1_hpn18.8.0"
transport.add_server_key(paramiko.Ed25519Key.from_private_key_file(folder + "/host_ed25519"))
transport.start_server(server=Server())
while transport.is_active():
    time.sleep(0.05)
