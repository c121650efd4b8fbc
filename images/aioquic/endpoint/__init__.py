"""A QUIC file client and server over aioquic, for interop and performance measurements."""
