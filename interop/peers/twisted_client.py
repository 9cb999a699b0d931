"""What Twisted Conch's SFTP client does. Arguments: port, user, directory of the lab."""

import os
import sys

from twisted.conch.ssh import channel, common, connection, filetransfer, keys, transport, userauth
from twisted.internet import defer, protocol, reactor

port, user, lab = int(sys.argv[1]), sys.argv[2], sys.argv[3]
failed = []


def here(*name):
    return os.path.join(lab, *name)


def far(*name):
    return os.path.join(lab, "far", *name).encode()


def slurp(path):
    with open(path, "rb") as file:
        return file.read()


@defer.inlineCallbacks
def put(sftp, name, data):
    flags = filetransfer.FXF_WRITE | filetransfer.FXF_CREAT | filetransfer.FXF_TRUNC
    file = yield sftp.openFile(name, flags, {})
    parts = range(0, len(data), 30000)
    yield defer.gatherResults([file.writeChunk(at, data[at:at + 30000]) for at in parts])
    yield file.close()


@defer.inlineCallbacks
def get(sftp, name):
    file = yield sftp.openFile(name, filetransfer.FXF_READ, {})
    size = (yield file.getAttrs())["size"]
    parts = yield defer.gatherResults([file.readChunk(at, 30000) for at in range(0, size, 30000)])
    yield file.close()
    return b"".join(parts)


@defer.inlineCallbacks
def work(sftp):
    yield put(sftp, far("up"), slurp(here("blob")))
    data = yield get(sftp, far("up"))
    with open(here("down"), "wb") as file:
        file.write(data)
    yield sftp.makeDirectory(far("small"), {})
    names = sorted(os.listdir(here("small")))
    yield defer.gatherResults([put(sftp, far("small", name), slurp(here("small", name))) for name in names])
    back = yield defer.gatherResults([get(sftp, far("small", name)) for name in names])
    assert back == [slurp(here("small", name)) for name in names], "small files differ"
    yield sftp.makeLink(far("link"), far("up"))
    # As programs that were written with OpenSSH's server have it.
    yield sftp.makeLink(far("up"), far("link2"))
    assert (yield sftp.readLink(far("link"))) == far("up").decode(), "readlink"
    yield put(sftp, far("moved.from"), b"moved")
    yield sftp.renameFile(far("moved.from"), far("moved"))
    yield put(sftp, far("gone"), b"gone")
    yield sftp.removeFile(far("gone"))
    print("done")


class Channel(channel.SSHChannel):
    name = b"session"

    def channelOpen(self, data):
        asked = self.conn.sendRequest(self, "subsystem", common.NS(b"sftp"), wantReply=True)
        asked.addCallback(self.start)
        asked.addErrback(end)

    def start(self, _):
        client = filetransfer.FileTransferClient()
        client.makeConnection(self)
        self.dataReceived = client.dataReceived
        client.gotServerVersion = lambda version, extensions: work(client).addBoth(end)


class Connection(connection.SSHConnection):
    def serviceStarted(self):
        self.openChannel(Channel(conn=self))


class Auth(userauth.SSHUserAuthClient):
    def getPublicKey(self):
        return keys.Key.fromFile(here("user_ecdsa")).public()

    def getPrivateKey(self):
        return defer.succeed(keys.Key.fromFile(here("user_ecdsa")))


class Transport(transport.SSHClientTransport):
    def verifyHostKey(self, key, fingerprint):
        return defer.succeed(True)

    def connectionSecure(self):
        self.requestService(Auth(user.encode(), Connection()))

    def connectionLost(self, reason):
        end(None)


def end(outcome):
    if outcome is not None:
        failed.append(outcome)
        print(outcome, file=sys.stderr)
    if reactor.running:
        reactor.stop()


factory = protocol.ClientFactory()
factory.protocol = Transport
reactor.connectTCP("127.0.0.1", port, factory)
reactor.run()
sys.exit(1 if failed else 0)
