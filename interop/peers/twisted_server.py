"""SFTP by Twisted Conch for holders of the lab's keys. Argument: directory of the lab. Prints its port, ends with stdin."""

import os
import sys
import threading

from twisted.conch import avatar, ls
from twisted.conch.interfaces import ISFTPServer
from twisted.conch.ssh import factory, filetransfer, keys, session
from twisted.conch.unix import SFTPServerForUnixConchUser
from twisted.conch.checkers import InMemorySSHKeyDB, SSHPublicKeyChecker
from twisted.cred.portal import Portal
from twisted.internet import reactor
from twisted.python import components, log
from twisted.python.filepath import FilePath

lab = sys.argv[1]


class User(avatar.ConchUser):
    """The user who runs this: no switch of user."""

    def __init__(self, name):
        avatar.ConchUser.__init__(self)
        self.name = name
        self.channelLookup[b"session"] = session.SSHSession
        self.subsystemLookup[b"sftp"] = filetransfer.FileTransferServer

    def getHomeDir(self):
        return FilePath(lab)

    def getUserGroupId(self):
        return os.getuid(), os.getgid()

    def _runAsUser(self, f, *args, **kw):
        try:
            f = iter(f)
        except TypeError:
            f = [(f, args, kw)]
        for step in f:
            func = step[0]
            args = step[1] if len(step) > 1 else ()
            kw = step[2] if len(step) > 2 else {}
            result = func(*args, **kw)
        return result


components.registerAdapter(SFTPServerForUnixConchUser, User, ISFTPServer)


class Realm:
    def requestAvatar(self, name, mind, *interfaces):
        return interfaces[0], User(name), lambda: None


class Factory(factory.SSHFactory):
    def __init__(self, portal):
        self.portal = portal
        self.privateKeys, self.publicKeys = {}, {}
        for name in ("host_ed25519", "host_ecdsa", "host_rsa"):
            private = keys.Key.fromFile(os.path.join(lab, name))
            self.privateKeys[private.sshType()] = private
            self.publicKeys[private.sshType()] = private.public()


with open(os.path.join(lab, "authorized_keys"), "rb") as lines:
    known = [keys.Key.fromString(line) for line in lines if line.strip()]


class AnyName(dict):
    def get(self, name, default=None):
        return known


log.startLogging(sys.stderr, setStdout=False)
portal = Portal(Realm())
portal.registerChecker(SSHPublicKeyChecker(InMemorySSHKeyDB(AnyName())))
port = reactor.listenTCP(0, Factory(portal), interface="127.0.0.1")
print(port.getHost().port, flush=True)
threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
reactor.run()
