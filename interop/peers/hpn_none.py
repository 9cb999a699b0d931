"""Adds the cipher `none` and the MAC `none` to asyncssh as HPN-SSH has them on the wire: names in a KEXINIT
after authentication, then packets in clear with the negotiated MAC. The implementation shares no code with
ours."""

from asyncssh import encryption, mac
from asyncssh.crypto import cipher


class Clear:
    """A cipher that does nothing, with whichever MAC."""

    @staticmethod
    def encrypt(data):
        return data

    decrypt = encrypt


class Encryption(encryption.BasicEncryption):
    @classmethod
    def new(cls, cipher_name, key, iv, mac_alg=b"", mac_key=b"", etm=False):
        kind = encryption.ETMEncryption if etm else encryption.BasicEncryption
        return kind(Clear(), mac.get_mac(mac_alg, mac_key))


cipher._cipher_params["none"] = (0, 0, 8)
encryption.register_encryption_alg(b"none", Encryption, "none", False)
mac.register_mac_alg(b"none", 0, 0, False, mac._NullMAC, (), False)


def switch(conn, macs=None):
    """What an HPN-SSH client does after its login: a KEXINIT with nothing but `none`, and all that follows like it."""
    conn._enc_algs = [b"none"]
    if macs:
        conn._mac_algs = macs
    conn._send_kexinit()
    conn._kexinit_sent = True


def allow(conn, without_mac=False):
    """What an HPN-SSH server with NoneEnabled lists."""
    conn._enc_algs = [*conn._enc_algs, b"none"]
    if without_mac:
        conn._mac_algs = [*conn._mac_algs, b"none"]
