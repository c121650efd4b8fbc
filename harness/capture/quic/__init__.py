"""QUIC packets of a capture: headers, protection and frames."""
