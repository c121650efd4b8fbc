module quic-lab/go-x-net-endpoint

go 1.26.0

require (
	golang.org/x/net v0.59.0
	quic-lab/endpoint v0.0.0
)

require (
	golang.org/x/crypto v0.57.0 // indirect
	golang.org/x/sys v0.48.0 // indirect
)

// Where images/go has it.
replace quic-lab/endpoint => /go/endpoint
