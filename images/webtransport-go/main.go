// A WebTransport client and server over webtransport-go, which ask each other for files as an interop runner tells them.
package main

import (
	"context"
	"flag"
	"fmt"
	"strings"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/webtransport-go"

	"quic-lab/endpoint"
)

var stack = endpoint.Stack{Name: "webtransport-go"}

// HTTP/3's application error code for a good end.
const noError = 0x100

const (
	testcaseHandshake = "handshake" // both ends write down the protocol that they agreed on
	testcaseTransfer  = "transfer"  // this end answers requests, and asks for nothing itself
)

// The test cases in which this end asks for files, TESTCASE=transfer-WAY-ASKER: who asks, by its role.
var askers = map[string]string{"client": "receive", "server": "send"}

type options struct {
	port             int
	certificate      string
	privateKey       string
	root             string
	downloads        string
	protocols        []string
	idleTimeout      time.Duration
	handshakeTimeout time.Duration
	requests         []string

	handshake bool // there is nothing to transfer
	way       *way // how this end asks for files; nil where it asks for none
}

func parseOptions(role string, arguments []string) (*options, error) {
	o := &options{}
	var testcase, protocols string
	flags := flag.NewFlagSet(role, flag.ContinueOnError)
	flags.StringVar(&testcase, "testcase", testcaseTransfer,
		"what to do: handshake, transfer or transfer-`WAY`-"+askers[role])
	flags.StringVar(&protocols, "protocols", "", "application `protocols` to agree on, separated by blanks")
	flags.IntVar(&o.port, "port", 443, "UDP `port` of the server")
	flags.StringVar(&o.certificate, "certificate", "/certs/cert.pem", "certificate chain of the server")
	flags.StringVar(&o.privateKey, "private-key", "/certs/priv.key", "private key of the server")
	flags.StringVar(&o.root, "root", "/www", "`directory` with a folder of files for each endpoint")
	flags.StringVar(&o.downloads, "downloads", "/downloads", "`directory` for the files that come")
	flags.DurationVar(&o.idleTimeout, "idle-timeout", time.Minute,
		"`time` without a packet after which a connection is given up")
	flags.DurationVar(&o.handshakeTimeout, "handshake-timeout", 20*time.Second, "the same during the handshake")
	if err := flags.Parse(arguments); err != nil {
		return nil, err
	}
	o.protocols, o.requests = strings.Fields(protocols), flags.Args()
	return o, o.setTestcase(role, testcase)
}

func (o *options) setTestcase(role, testcase string) error {
	switch testcase {
	case testcaseHandshake:
		o.handshake = true
	case testcaseTransfer:
	default:
		name := strings.TrimPrefix(testcase, testcaseTransfer+"-")
		o.way = ways[strings.TrimSuffix(name, "-"+askers[role])]
		if o.way == nil {
			return fmt.Errorf("no such test case of a %s: %s", role, testcase)
		}
	}
	return nil
}

func (o *options) quicConfig(logs *logs) *quic.Config {
	return &quic.Config{
		HandshakeIdleTimeout:             o.handshakeTimeout,
		MaxIdleTimeout:                   o.idleTimeout,
		EnableDatagrams:                  true,
		EnableStreamResetPartialDelivery: true,
		Tracer:                           logs.trace,
	}
}

// limits turns WebTransport's own flow control on, without which the library has one session on a connection. They are
// the largest there are, so that those of QUIC alone are reached, and none has ever to be raised.
func limits() *webtransport.Config {
	return &webtransport.Config{
		MaxIncomingStreams:    1 << 60,
		MaxIncomingUniStreams: 1 << 60,
		MaxIncomingData:       1<<62 - 1,
	}
}

func run(ctx context.Context, role string, arguments []string) error {
	o, err := parseOptions(role, arguments)
	if err != nil {
		return err
	}
	logs, err := openLogs()
	if err != nil {
		return err
	}
	defer logs.close()
	switch role {
	case "client":
		return runClient(ctx, o, logs)
	case "server":
		return runServer(ctx, o, logs)
	default:
		return fmt.Errorf("no such role: %s", role)
	}
}

func main() {
	stack.Main(run)
}
