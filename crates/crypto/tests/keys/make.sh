#!/bin/sh
# Makes the throw-away keys of this directory with ssh-keygen and openssl. Nothing trusts them.
# Encrypted ones have the passphrase "throw-away". PUBLIC lists what ssh-keygen says about each file.
set -eu
cd "$(dirname "$0")"
rm -f ./*.key ./*.pub PUBLIC signature.*
gen() { name=$1; shift; ssh-keygen -q -C "comment of $name" -f "$name.key" "$@"; mv "$name.key.pub" "$name.pub"; }
gen ed25519 -t ed25519 -N ''
gen ecdsa256 -t ecdsa -b 256 -N ''
gen ecdsa384 -t ecdsa -b 384 -N ''
gen ecdsa521 -t ecdsa -b 521 -N ''
gen rsa2048 -t rsa -b 2048 -N ''
gen rsa3072 -t rsa -b 3072 -N ''
gen rsa1024 -t rsa -b 1024 -N ''
gen rsa10240 -t rsa -b 10240 -N ''
gen enc-aes256-ctr -t ed25519 -N throw-away
for cipher in aes128-ctr aes192-ctr aes128-cbc aes192-cbc aes256-cbc aes128-gcm@openssh.com aes256-gcm@openssh.com; do
	gen "enc-${cipher%@*}" -t ecdsa -N throw-away -Z "$cipher" -a 4
done
gen enc-rsa -t rsa -b 2048 -N throw-away -a 2
for format in PEM PKCS8; do
	gen "rsa-$format" -t rsa -b 2048 -m $format -N ''
	gen "rsa-$format-enc" -t rsa -b 2048 -m $format -N throw-away
	gen "ecdsa384-$format" -t ecdsa -b 384 -m $format -N ''
	gen "ecdsa521-$format-enc" -t ecdsa -b 521 -m $format -N throw-away
done
# Ed25519 in PKCS#8, which OpenSSL writes and ssh-keygen does not.
openssl genpkey -quiet -algorithm ed25519 -out ed25519-pkcs8.key
openssl pkcs8 -topk8 -in ed25519-pkcs8.key -v2 aes-128-cbc -v2prf hmacWithSHA1 -passout pass:throw-away -out ed25519-pkcs8-enc.key
openssl rsa -in rsa-PEM.key -traditional -aes256 -passout pass:throw-away -out rsa-traditional-aes256.key 2>/dev/null
cp rsa-PEM.pub rsa-traditional-aes256.pub
# Certificates.
gen ca -t ed25519 -N ''
gen ca-rsa -t rsa -b 2048 -N ''
certify() {
	subject=$1
	shift
	directory=$(mktemp -d)
	cp "$subject.pub" "$directory/key.pub"
	ssh-keygen -q "$@" "$directory/key.pub"
	mv "$directory/key-cert.pub" "$subject-cert.pub"
	rm -r "$directory"
}
certify ed25519 -s ca.key -I 'user certificate' -n alice,bob -z 7 -V 20200101000000Z:20400101000000Z -O force-command=/bin/true -O source-address=127.0.0.0/8
certify rsa2048 -s ca-rsa.key -I 'rsa user' -n alice -V always:forever
certify ecdsa256 -s ca.key -h -I 'host certificate' -n 'host.example,*.lab.example' -V always:forever
# Signatures over the bytes "signed data", as SSHSIG files hold them.
printf 'signed data' >signature.data
for key in ed25519 ecdsa256 ecdsa384 ecdsa521 rsa2048 rsa10240; do
	ssh-keygen -q -Y sign -n file -f $key.key <signature.data >signature.$key 2>/dev/null
done
# The bare number of an "ssh-rsa" signature, which ssh-keygen no longer makes.
openssl dgst -sha1 -sign rsa-PEM.key -out signature.rsa-sha1 signature.data
for pub in *.pub; do
	name=${pub%.pub}
	{
		echo "== $name"
		ssh-keygen -l -f "$pub"
		ssh-keygen -l -E md5 -f "$pub"
		ssh-keygen -lv -f "$pub" | tail -n 11
	} >>PUBLIC
done
chmod 600 ./*.key
