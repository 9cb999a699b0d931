"""Serves SFTP to any user, with the attributes set by Paramiko's `SFTPServer.set_file_attr`, as most servers that are built
on Paramiko do: a file whose length is set is emptied first. Argument: directory of the lab. Prints its port, ends with
stdin."""

import os
import socket
import sys
import threading

import paramiko
from paramiko import SFTP_OK, SFTPAttributes, SFTPServer

lab = sys.argv[1]


def checked(method):
    """Turns an OSError into a status."""

    def call(*args):
        try:
            result = method(*args)
        except OSError as error:
            return SFTPServer.convert_errno(error.errno)
        return SFTP_OK if result is None else result

    return call


class Server(paramiko.ServerInterface):
    def get_allowed_auths(self, username):
        return "publickey"

    def check_auth_publickey(self, username, key):
        return paramiko.AUTH_SUCCESSFUL

    def check_channel_request(self, kind, chanid):
        return paramiko.OPEN_SUCCEEDED


class Handle(paramiko.SFTPHandle):
    @checked
    def stat(self):
        return SFTPAttributes.from_stat(os.fstat(self.file.fileno()))

    @checked
    def chattr(self, attr):
        self.file.flush()
        SFTPServer.set_file_attr(self.name, attr)


class Files(paramiko.SFTPServerInterface):
    @checked
    def list_folder(self, path):
        found = []
        for name in os.listdir(path):
            entry = SFTPAttributes.from_stat(os.lstat(os.path.join(path, name)))
            entry.filename = name
            found.append(entry)
        return found

    @checked
    def stat(self, path):
        return SFTPAttributes.from_stat(os.stat(path))

    @checked
    def lstat(self, path):
        return SFTPAttributes.from_stat(os.lstat(path))

    @checked
    def open(self, path, flags, attr):
        mode = attr.st_mode if attr.st_mode is not None else 0o666
        file = os.fdopen(os.open(path, flags, mode), "r+b" if flags & os.O_RDWR else "wb" if flags & os.O_WRONLY else "rb")
        handle = Handle(flags)
        handle.name, handle.file, handle.readfile, handle.writefile = path, file, file, file
        return handle

    @checked
    def remove(self, path):
        os.remove(path)

    @checked
    def rename(self, old, new):
        if os.path.lexists(new):
            return paramiko.SFTP_FAILURE
        os.rename(old, new)

    @checked
    def posix_rename(self, old, new):
        os.replace(old, new)

    @checked
    def mkdir(self, path, attr):
        os.mkdir(path)

    @checked
    def rmdir(self, path):
        os.rmdir(path)

    @checked
    def chattr(self, path, attr):
        SFTPServer.set_file_attr(path, attr)

    @checked
    def symlink(self, target, path):
        os.symlink(target, path)

    def readlink(self, path):
        try:
            return os.readlink(path)
        except OSError as error:
            return SFTPServer.convert_errno(error.errno)


def serve(connection):
    transport = paramiko.Transport(connection)
    transport.add_server_key(paramiko.RSAKey.from_private_key_file(os.path.join(lab, "host_rsa")))
    transport.add_server_key(paramiko.ECDSAKey.from_private_key_file(os.path.join(lab, "host_ecdsa")))
    transport.set_subsystem_handler("sftp", SFTPServer, Files)
    transport.start_server(server=Server())
    channels = []
    while transport.is_active():
        # A channel that nothing refers to is closed.
        channels.append(transport.accept(1))


def accept(listener):
    while True:
        threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()


listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
threading.Thread(target=accept, args=(listener,), daemon=True).start()
sys.stdin.read()
os._exit(0)
