FROM scratch
COPY bin/relay /relay
USER 65534:65534
ENTRYPOINT ["/relay"]
