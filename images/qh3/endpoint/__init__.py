"""A QUIC file client and server over qh3, for interop and performance measurements."""
