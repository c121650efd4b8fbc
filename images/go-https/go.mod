module quic-lab/go-https-endpoint

go 1.26.0

require (
	golang.org/x/net v0.62.0
	quic-lab/endpoint v0.0.0
)

require golang.org/x/text v0.43.0 // indirect

// Where images/go has it.
replace quic-lab/endpoint => /go/endpoint
