#!/bin/sh
# Regenerates internal/hotel/pb from the .proto files beside this script.
# Needs protoc (Debian: protobuf-compiler), protoc-gen-go v1.36.12 and protoc-gen-go-grpc v1.6.2 on PATH.
set -eu
cd "$(dirname "$0")/.."
exec protoc -I proto --go_out=. --go_opt=module=apps --go-grpc_out=. --go-grpc_opt=module=apps proto/*.proto
