#!/usr/bin/python3
"""An OpenID provider, a login and a verifier for tests. Tokens have OpenPubkey's form, certificates opkssh's.

  oidc.py provider PORT DIR [PEM]   serves discovery, keys and tokens; signs users' keys as a small authority (POST /sign);
                                    PEM has the key and the certificate for HTTPS
  oidc.py token ISSUER EMAIL KEY [lifetime=S] [audience=A] [key=OTHER]   prints a token that names the public key KEY.pub
  oidc.py certificate ISSUER EMAIL KEY    prints a certificate from the provider's authority
  oidc.py verify USER KEY TYPE      AuthorizedKeysCommand: prints the line for a certificate whose token is right
  oidc.py browser URL EMAIL         visits a page of the provider as this user, and follows where it leads

The provider gives a token to any client that asks: a real one asks for a password first.
"""
import base64
import hashlib
import http.server
import json
import os
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa, utils

AUDIENCE = "longhaul"
# USER EMAIL ISSUER, and ISSUER AUDIENCE.
POLICY, PROVIDERS = "/etc/opk/auth_id", "/etc/opk/providers"


def encode(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def decode(text):
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def canonical(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def number(text):
    return int.from_bytes(decode(text), "big")


def commitment(header):
    """What ties the key to the token: the nonce that the provider signs."""
    return encode(hashlib.sha3_256(decode(header)).digest())


def fetch(url, value=None):
    data = None if value is None else canonical(value)
    with urllib.request.urlopen(urllib.request.Request(url, data), timeout=30) as answer:
        return json.load(answer)


def provider_key(issuer, kid):
    found = fetch(issuer + "/.well-known/openid-configuration")
    if found["issuer"] != issuer:
        raise ValueError("another issuer")
    key = next(key for key in fetch(found["jwks_uri"])["keys"] if key["kid"] == kid)
    return rsa.RSAPublicNumbers(number(key["e"]), number(key["n"])).public_key()


def check_token(protected, payload, signature):
    """Checks what the provider has signed, and returns the claims."""
    claims, header = json.loads(decode(payload)), json.loads(decode(protected))
    audiences = dict(line.split() for line in open(PROVIDERS))
    if claims["iss"] not in audiences or header["alg"] != "RS256":
        raise ValueError("a provider that is not trusted")
    key = provider_key(claims["iss"], header["kid"])
    key.verify(decode(signature), f"{protected}.{payload}".encode(), padding.PKCS1v15(), hashes.SHA256())
    if claims["aud"] != audiences[claims["iss"]]:
        raise ValueError("a token for another audience")
    if claims["exp"] <= time.time():
        raise ValueError("an expired token")
    return claims


class Handler(http.server.BaseHTTPRequestHandler):
    def reply(self, value):
        body = canonical(value)
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        issuer, (path, _, query) = self.server.issuer, self.path.partition("?")
        if path == "/.well-known/openid-configuration":
            self.reply({"issuer": issuer, "jwks_uri": issuer + "/keys", "authorization_endpoint": issuer + "/authorize",
                        "token_endpoint": issuer + "/code", "response_types_supported": ["code"],
                        "subject_types_supported": ["public"], "id_token_signing_alg_values_supported": ["RS256"],
                        "code_challenge_methods_supported": ["S256"]})
        elif path == "/authorize":
            self.authorize(dict(urllib.parse.parse_qsl(query)))
        else:
            public = self.server.key.public_key().public_numbers()
            size = (public.n.bit_length() + 7) // 8
            jwk = {"kty": "RSA", "alg": "RS256", "kid": "1", "n": encode(public.n.to_bytes(size, "big")),
                   "e": encode(public.e.to_bytes(3, "big"))}
            self.reply({"keys": [jwk]})

    def authorize(self, asked):
        """The page where a person logs in: the browser has said who it is. What was asked for becomes the code."""
        asked["email"] = self.headers["X-Email"]
        where = {"code": encode(canonical(asked)), "state": asked["state"]}
        self.send_response(302)
        self.send_header("Location", asked["redirect_uri"] + "?" + urllib.parse.urlencode(where))
        self.end_headers()

    def redeem(self, form):
        asked = json.loads(decode(form["code"]))
        if encode(hashlib.sha256(form["code_verifier"].encode()).digest()) != asked["code_challenge"]:
            raise ValueError("not the program that asked for the code")
        claims = {"email": asked["email"], "nonce": asked["nonce"], "audience": asked["client_id"], "lifetime": 600}
        return self.token(claims) | {"access_token": "x", "token_type": "Bearer", "expires_in": 600}

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path == "/code":
            return self.reply(self.redeem(dict(urllib.parse.parse_qsl(body.decode()))))
        asked = json.loads(body)
        return self.reply(self.sign(asked) if self.path == "/sign" else self.token(asked))

    def token(self, asked):
        now = int(time.time())
        claims = {"iss": self.server.issuer, "aud": asked["audience"], "sub": asked["email"], "email": asked["email"],
                  "nonce": asked["nonce"], "iat": now, "exp": now + asked["lifetime"]}
        protected, payload = encode(canonical({"alg": "RS256", "kid": "1", "typ": "JWT"})), encode(canonical(claims))
        signature = self.server.key.sign(f"{protected}.{payload}".encode(), padding.PKCS1v15(), hashes.SHA256())
        return {"id_token": f"{protected}.{payload}.{encode(signature)}"}

    def sign(self, asked):
        """The small authority: a certificate of five minutes for the user that the token names, by the key in the token."""
        payload, protected, signature, header, _ = asked["token"].split(":")
        claims = check_token(protected, payload, signature)
        if claims["nonce"] != commitment(header):
            raise ValueError("the token names another key")
        users = [line.split()[0] for line in open(POLICY) if line.split()[1:] == [claims["email"], claims["iss"]]]
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "key.pub")
            with open(path, "wb") as file:
                file.write(ssh_key(json.loads(decode(header))["upk"]))
            subprocess.run(["ssh-keygen", "-q", "-s", os.path.join(self.server.directory, "ca"), "-I", claims["email"], "-n",
                            ",".join(users), "-V", "-1m:+5m", path], check=True)
            with open(os.path.join(directory, "key-cert.pub")) as file:
                return {"certificate": file.read()}

    def log_message(self, *_):
        pass


def ssh_key(jwk):
    curve = ec.EllipticCurvePublicNumbers(number(jwk["x"]), number(jwk["y"]), ec.SECP256R1())
    return curve.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)


def provider(port, directory, pem=None):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", int(port)), Handler)
    server.issuer, server.directory = f"http{'s' if pem else ''}://127.0.0.1:{port}", directory
    if pem:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pem)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    server.key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    server.serve_forever()


def token(issuer, email, key, options):
    """Logs in: the nonce that the provider signs is a commitment to the user's key."""
    with open(options.get("key", key), "rb") as file:
        private = serialization.load_ssh_private_key(file.read(), None)
    public = private.public_key().public_numbers()
    jwk = {"alg": "ES256", "kty": "EC", "crv": "P-256", "x": encode(public.x.to_bytes(32, "big")),
           "y": encode(public.y.to_bytes(32, "big"))}
    header = encode(canonical({"alg": "ES256", "rz": os.urandom(32).hex(), "typ": "CIC", "upk": jwk}))
    answer = fetch(issuer + "/token", {"email": email, "nonce": commitment(header), "audience": options.get("audience", AUDIENCE),
                                       "lifetime": int(options.get("lifetime", 600))})
    protected, payload, signature = answer["id_token"].split(".")
    r, s = utils.decode_dss_signature(private.sign(f"{header}.{payload}".encode(), ec.ECDSA(hashes.SHA256())))
    own = encode(r.to_bytes(32, "big") + s.to_bytes(32, "big"))
    return ":".join([payload, protected, signature, header, own])


def fields(blob):
    while blob:
        size = int.from_bytes(blob[:4], "big")
        yield blob[4:4 + size]
        blob = blob[4 + size:]


def text(field):
    return len(field).to_bytes(4, "big") + field


def verify(user, blob, kind):
    """Returns the line for authorized_keys, for the key that signed the certificate: the user's own."""
    if kind != "ecdsa-sha2-nistp256-cert-v01@openssh.com":
        raise ValueError("not such a certificate")
    # PROTOCOL.certkeys: name, nonce, curve, point; serial (8), type (4); key ID, principals, times (16), critical
    # options, extensions, reserved, authority, signature.
    blob = base64.b64decode(blob)
    name, _, curve, point = (next(each) for each in [fields(blob)] * 4)
    rest = blob[sum(map(len, (name, _, curve, point))) + 16 + 12:]
    key_id, principals = (next(each) for each in [fields(rest)] * 2)
    rest = rest[len(key_id) + len(principals) + 8 + 16:]
    critical, extensions, _, authority, _ = fields(rest)
    pairs = list(fields(extensions))
    extension = dict(zip(pairs[::2], pairs[1::2]))[b"openpubkey-pkt"]
    payload, protected, signature, header, own = next(fields(extension)).decode().split(":")
    claims = check_token(protected, payload, signature)
    if claims["nonce"] != commitment(header):
        raise ValueError("the token names another key")
    values = json.loads(decode(header))
    if ssh_key(values["upk"]).split()[1] != base64.b64encode(text(b"ecdsa-sha2-nistp256") + text(curve) + text(point)):
        raise ValueError("the certificate is for another key than the token")
    r, s = decode(own)[:32], decode(own)[32:]
    key = serialization.load_ssh_public_key(ssh_key(values["upk"]))
    dss = utils.encode_dss_signature(int.from_bytes(r, "big"), int.from_bytes(s, "big"))
    key.verify(dss, f"{header}.{payload}".encode(), ec.ECDSA(hashes.SHA256()))
    if not any(line.split() == [user, claims["email"], claims["iss"]] for line in open(POLICY)):
        raise ValueError(f"{claims['email']} may not log in as {user}")
    names = ",".join(each.decode() for each in fields(principals))
    if not names.replace(",", "").replace("-", "").isalnum():
        raise ValueError("principals that do not belong into a line")
    kind = next(fields(authority)).decode()
    return f'cert-authority,principals="{names}" {kind} {base64.b64encode(authority).decode()}'


def main(command, *words):
    options = dict(word.split("=", 1) for word in words[3:]) if command == "token" else {}
    if command == "provider":
        provider(*words)
    elif command == "token":
        print(token(*words[:3], options))
    elif command == "browser":
        opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        with opener.open(urllib.request.Request(words[0], headers={"X-Email": words[1]}), timeout=30) as page:
            page.read()
    elif command == "certificate":
        print(fetch(words[0] + "/sign", {"token": token(*words, {})})["certificate"], end="")
    else:
        try:
            line, why = verify(*words), "accepted"
        except (InvalidSignature, ValueError, KeyError, StopIteration) as problem:
            line, why = None, str(problem) or type(problem).__name__
        with open("/tmp/verified", "a") as log:
            print(words[0], why, file=log)
        if line:
            print(line)


main(*sys.argv[1:])
