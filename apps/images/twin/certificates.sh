#!/bin/sh
# Makes an authority and a server certificate of it in $1, for the services' TLS switch.
set -eu
mkdir -p "$1"
cd "$1"
openssl req -x509 -newkey rsa:2048 -nodes -days 3650 -subj /CN=hotel-ca -keyout ca_key.pem -out ca_cert.pem
openssl req -newkey rsa:2048 -nodes -subj /CN=hotel.example -keyout server_key.pem -out server.csr
printf 'subjectAltName=DNS:hotel.example\nbasicConstraints=CA:FALSE\n' > server.ext
openssl x509 -req -days 3650 -in server.csr -CA ca_cert.pem -CAkey ca_key.pem -CAcreateserial -extfile server.ext -out server_cert.pem
rm ca_key.pem ca_cert.srl server.csr server.ext
chmod 644 server_key.pem # the services may run as any user
