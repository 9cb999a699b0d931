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


def seal_gmac(key, iv, invocation, plain):
    counter = (int.from_bytes(iv[4:], "big") + invocation) % 2**64
    return plain + AESGCM(key).encrypt(iv[:4] + counter.to_bytes(8, "big"), b"", plain)


def chacha(key, counter, seq, data):
    nonce = counter.to_bytes(8, "little") + seq.to_bytes(8, "big")
    return Cipher(algorithms.ChaCha20(key, nonce), None).encryptor().update(data)


def seal_chacha(key, seq, plain):
    body = chacha(key[32:], 0, seq, plain[:4]) + chacha(key[:32], 1, seq, plain[4:])
    return body + Poly1305.generate_tag(chacha(key[:32], 0, seq, bytes(32)), body)


def encipher(key, block):
    return Cipher(algorithms.AES(key), modes.ECB()).encryptor().update(block)


def umac(key, nonce, message, tag_len):
    """RFC 4418, for messages of up to 1024 bytes: the second level has nothing to do."""
    assert len(message) <= 1024

    def kdf(index, length):
        blocks = (encipher(key, struct.pack(">QQ", index, number)) for number in range(1, 2 + length // 16))
        return b"".join(blocks)[:length]

    columns = tag_len // 4
    key1, key3, key4 = kdf(1, 1024 + 16 * (columns - 1)), kdf(3, 64 * columns), kdf(4, 4 * columns)
    padded = message + bytes(-len(message) % 32 if message else 32)
    m = struct.unpack(f"<{len(padded) // 4}I", padded)
    tag = b""
    for column in range(columns):
        k = struct.unpack(">256I", key1[16 * column:][:1024])
        pairs = (at for at in range(len(m)) if at % 8 < 4)
        y = 8 * len(message) + sum((m[i] + k[i]) % 2**32 * ((m[i + 4] + k[i + 4]) % 2**32) for i in pairs)
        words = struct.unpack(">8H", (y % 2**64).to_bytes(16, "big"))
        factors = struct.unpack(">8Q", key3[64 * column:][:64])
        y = sum(word * (factor % (2**36 - 5)) for word, factor in zip(words, factors)) % (2**36 - 5) % 2**32
        tag += (y ^ int.from_bytes(key4[4 * column:][:4], "big")).to_bytes(4, "big")
    half = nonce % (16 // tag_len)
    pad = encipher(kdf(0, 16), (nonce - half).to_bytes(8, "big") + bytes(8))[half * tag_len:][:tag_len]
    return bytes(a ^ b for a, b in zip(tag, pad))


def authenticate(mac, key, seq, data):
    if mac.startswith("umac"):
        return umac(key, seq, data, int(mac.removeprefix("umac-")) // 8)
    return hmac.new(key, seq.to_bytes(4, "big") + data, mac.replace("hmac-", "").replace("sha2-", "sha")).digest()


def seal_ctr(key, iv, offset, mac_key, mac, etm, seq, plain):
    block = (int.from_bytes(iv, "big") + offset // 16) % 2**128
    encryptor = Cipher(algorithms.AES(key), modes.CTR(block.to_bytes(16, "big"))).encryptor()
    body = plain[:4] + encryptor.update(plain[4:]) if etm else encryptor.update(plain)
    return body + authenticate(mac, mac_key, seq, body if etm else plain)


def seal_cbc(algorithm, iv, mac_key, mac, etm, seq, plain):
    """The tag may be shorter than the hash; the caller cuts it."""
    encryptor = Cipher(algorithm, modes.CBC(iv)).encryptor()
    body = plain[:4] + encryptor.update(plain[4:]) if etm else encryptor.update(plain)
    return body, authenticate(mac, mac_key, seq, body if etm else plain)


def main():
    ciphers = [
        ("aes128-gcm@openssh.com", 16), ("aes256-gcm@openssh.com", 32), ("chacha20-poly1305@openssh.com", 64),
        ("chacha20-poly1305-mt@hpnssh.org", 64), ("aes128-ctr", 16), ("aes192-ctr", 24), ("aes256-ctr", 32),
        ("aes256-cbc", 32), ("aes192-cbc", 24), ("aes128-cbc", 16), ("3des-cbc", 24),
        # These two encrypt nothing.
        ("aes128-gmac@longhaul", 16), ("none", 0),
    ]
    macs = [("hmac-sha1", 20), ("hmac-sha2-256", 32), ("hmac-sha2-512", 64)]
    suites_with_mac = [(mac + end, n, mac, bool(end)) for mac, n in macs for end in ("", "-etm@openssh.com")]
    suites_with_mac += [(f"umac-{n}{end}@openssh.com", 16, f"umac-{n}", bool(end)) for n in (64, 128) for end in ("", "-etm")]
    # Name, length of key, hash, encrypt-then-MAC; those with -96 in their names are cut to 12 bytes.
    for mac, n in (("hmac-sha1", 20), ("hmac-md5", 16)):
        for cut in (("-96",) if n == 20 else ("", "-96")):
            suites_with_mac += [(mac + cut + end, n, mac, bool(end)) for end in ("", "-etm@openssh.com")]
    with open("packets.txt", "w") as out:
        for name, key_len in ciphers:
            key = stretch("key" + name, key_len)
            suites = [("-", 0, None, False)]
            if name.endswith(("ctr", "cbc", "none")):
                suites = suites_with_mac
            for mac, mac_len, kind, etm in suites:
                mac_key = stretch("mac" + mac, mac_len)
                seq, offset = 2**32 - 2, 0
                tag_len = 12 if "-96" in mac else None
                chain = stretch("iv", 8 if name == "3des-cbc" else 16)
                for invocation, payload_len in enumerate((1, 100, 20, 52)):
                    if "gcm" in name or "gmac" in name:
                        iv = stretch("iv", 4) + (2**64 - 2).to_bytes(8, "big")
                        plain = packet(payload_len, 16, False)
                        sealed = (seal_gcm if "gcm" in name else seal_gmac)(key, iv, invocation, plain)
                    elif "chacha" in name:
                        iv = b""
                        plain = packet(payload_len, 8, False)
                        sealed = seal_chacha(key, seq, plain)
                    elif name == "none":
                        iv = b""
                        plain = packet(payload_len, 8, not etm)
                        sealed = plain + authenticate(kind, mac_key, seq, plain)[:tag_len]
                    elif name.endswith("cbc"):
                        # Each line stands for itself: its IV is where the chain has come to.
                        iv = chain
                        block = algorithms.TripleDES if name == "3des-cbc" else algorithms.AES
                        plain = packet(payload_len, len(iv), not etm)
                        body, tag = seal_cbc(block(key), iv, mac_key, kind, etm, seq, plain)
                        sealed, chain = body + tag[:tag_len], body[-len(iv):]
                    else:
                        iv = (2**128 - 4).to_bytes(16, "big")
                        plain = packet(payload_len, 16, not etm)
                        sealed = seal_ctr(key, iv, offset, mac_key, kind, etm, seq, plain)
                        if tag_len:
                            sealed = sealed[:len(plain) + tag_len]
                    fields = [key.hex() or "-", iv.hex() or "-", mac_key.hex() or "-", str(seq), str(invocation), str(offset)]
                    print(name, mac, *fields, plain.hex(), sealed.hex(), file=out)
                    if name.endswith(("ctr", "cbc")):
                        offset += len(plain) - (4 if etm else 0)
                    seq = (seq + 1) % 2**32


main()
