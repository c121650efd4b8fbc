module quic-lab/endpoint

go 1.26.0
