"""Forwards as paramiko's client or server does. Arguments: `server` LAB, or `client` LAB PORT USER TARGET.

The server prints its port; the client prints where it listens: a local port and a remote port that lead to the port TARGET. Both end
with their standard input."""

import os
import socket
import sys
import threading

import paramiko

role, lab = sys.argv[1:3]


def background(work, *args):
    threading.Thread(target=work, args=args, daemon=True).start()


def copy(source, sink):
    while data := source.recv(1 << 15):
        sink.sendall(data)
    try:
        sink.shutdown_write() if isinstance(sink, paramiko.Channel) else sink.shutdown(socket.SHUT_WR)
    except OSError:
        pass


def join(channel, connection):
    """Both directions, each to its end."""
    first = threading.Thread(target=copy, args=(channel, connection), daemon=True)
    first.start()
    copy(connection, channel)
    first.join()
    channel.close()
    connection.close()


def listener():
    return socket.create_server(("127.0.0.1", 0))


class Server(paramiko.ServerInterface):
    def __init__(self, transport):
        self.transport = transport
        self.targets = {}

    def get_allowed_auths(self, username):
        return "publickey"

    def check_auth_publickey(self, username, key):
        with open(os.path.join(lab, "authorized_keys")) as keys:
            known = key.get_base64() in keys.read()
        return paramiko.AUTH_SUCCESSFUL if known else paramiko.AUTH_FAILED

    def check_channel_direct_tcpip_request(self, chanid, origin, destination):
        self.targets[chanid] = destination
        return paramiko.OPEN_SUCCEEDED

    def check_port_forward_request(self, address, port):
        sock = socket.create_server(("127.0.0.1", port))
        port = sock.getsockname()[1]
        background(self.offer, sock, port)
        return port

    def cancel_port_forward_request(self, address, port):
        pass

    def offer(self, sock, port):
        while True:
            connection, origin = sock.accept()
            channel = self.transport.open_forwarded_tcpip_channel(origin, ("localhost", port))
            background(join, channel, connection)


def session(connection):
    transport = paramiko.Transport(connection)
    transport.add_server_key(paramiko.Ed25519Key(filename=os.path.join(lab, "host_ed25519")))
    server = Server(transport)
    transport.start_server(server=server)
    while transport.is_active():
        channel = transport.accept(1)
        if channel is not None:
            target = server.targets.pop(channel.get_id())
            background(join, channel, socket.create_connection(target))


def serve():
    sock = listener()
    print(sock.getsockname()[1], flush=True)
    while True:
        connection, _ = sock.accept()
        background(session, connection)


def connect():
    port, user, target = int(sys.argv[3]), sys.argv[4], int(sys.argv[5])
    client = paramiko.SSHClient()
    client.load_host_keys(os.path.join(lab, "known_hosts"))
    client.connect("127.0.0.1", port, user, key_filename=os.path.join(lab, "user_ed25519"), look_for_keys=False, allow_agent=False)
    transport = client.get_transport()

    def accepted(channel, origin, server):
        background(join, channel, socket.create_connection(("127.0.0.1", target)))

    def listen(sock):
        while True:
            connection, origin = sock.accept()
            channel = transport.open_channel("direct-tcpip", ("127.0.0.1", target), origin)
            background(join, channel, connection)

    sock = listener()
    background(listen, sock)
    remote = transport.request_port_forward("127.0.0.1", 0, accepted)
    print(sock.getsockname()[1], remote, flush=True)


background(serve if role == "server" else connect)
sys.stdin.read()
