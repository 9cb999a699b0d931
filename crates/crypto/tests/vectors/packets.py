#!/usr/bin/env python3
"""Writes packets.txt: sealed packets made by an independent implementation (python3-cryptography).

Fields: cipher, MAC or -, key, IV, MAC key, sequence number, packets and encrypted bytes since NEWKEYS, plain
packet, sealed packet (hex). Each suite seals four packets in a row, the sequence number and the counters wrapping on the way.
"""

import hashlib
import hmac
import struct

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.poly1305 import Poly1305


def stretch(label, length):
    return hashlib.shake_256(label.encode()).digest(length)


def packet(payload_len, block, length_padded):
    fixed = 5 + payload_len if length_padded else 1 + payload_len
    pad = block - fixed % block
    if pad < 4:
        pad += block
    length = 1 + payload_len + pad
    return struct.pack(">IB", length, pad) + stretch(f"payload{payload_len}", payload_len) + stretch("padding", pad)


def seal_gcm(key, iv, invocation, plain):
    counter = (int.from_bytes(iv[4:], "big") + invocation) % 2**64
    return plain[:4] + AESGCM(key).encrypt(iv[:4] + counter.to_bytes(8, "big"), plain[4:], plain[:4])


def chacha(key, counter, seq, data):
    nonce = counter.to_bytes(8, "little") + seq.to_bytes(8, "big")
    return Cipher(algorithms.ChaCha20(key, nonce), None).encryptor().update(data)


def seal_chacha(key, seq, plain):
    body = chacha(key[32:], 0, seq, plain[:4]) + chacha(key[:32], 1, seq, plain[4:])
    return body + Poly1305.generate_tag(chacha(key[:32], 0, seq, bytes(32)), body)


def seal_ctr(key, iv, offset, mac_key, digest, etm, seq, plain):
    block = (int.from_bytes(iv, "big") + offset // 16) % 2**128
    encryptor = Cipher(algorithms.AES(key), modes.CTR(block.to_bytes(16, "big"))).encryptor()
    body = plain[:4] + encryptor.update(plain[4:]) if etm else encryptor.update(plain)
    return body + hmac.new(mac_key, seq.to_bytes(4, "big") + (body if etm else plain), digest).digest()


def main():
    ciphers = [
        ("aes128-gcm@openssh.com", 16), ("aes256-gcm@openssh.com", 32), ("chacha20-poly1305@openssh.com", 64),
        ("chacha20-poly1305-mt@hpnssh.org", 64), ("aes128-ctr", 16), ("aes192-ctr", 24), ("aes256-ctr", 32),
    ]
    macs = [("hmac-sha1", 20, "sha1"), ("hmac-sha2-256", 32, "sha256"), ("hmac-sha2-512", 64, "sha512")]
    with open("packets.txt", "w") as out:
        for name, key_len in ciphers:
            key = stretch("key" + name, key_len)
            suites = [("-", 0, None, False)]
            if name.endswith("ctr"):
                suites = [(mac + end, n, digest, bool(end)) for mac, n, digest in macs for end in ("", "-etm@openssh.com")]
            for mac, mac_len, digest, etm in suites:
                mac_key = stretch("mac" + mac, mac_len)
                seq, offset = 2**32 - 2, 0
                for invocation, payload_len in enumerate((1, 100, 20, 52)):
                    if "gcm" in name:
                        iv = stretch("iv", 4) + (2**64 - 2).to_bytes(8, "big")
                        plain = packet(payload_len, 16, False)
                        sealed = seal_gcm(key, iv, invocation, plain)
                    elif "chacha" in name:
                        iv = b""
                        plain = packet(payload_len, 8, False)
                        sealed = seal_chacha(key, seq, plain)
                    else:
                        iv = (2**128 - 4).to_bytes(16, "big")
                        plain = packet(payload_len, 16, not etm)
                        sealed = seal_ctr(key, iv, offset, mac_key, digest, etm, seq, plain)
                    fields = [key.hex(), iv.hex() or "-", mac_key.hex() or "-", str(seq), str(invocation), str(offset)]
                    print(name, mac, *fields, plain.hex(), sealed.hex(), file=out)
                    if name.endswith("ctr"):
                        offset += len(plain) - (4 if etm else 0)
                    seq = (seq + 1) % 2**32


main()
