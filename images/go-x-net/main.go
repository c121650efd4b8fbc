// A QUIC file client and server over golang.org/x/net/quic, for interop and performance measurements.
package main

import (
	"context"
	"crypto/tls"
	"flag"
	"fmt"
	"os"
	"time"

	"golang.org/x/net/quic"
)

// The only application protocol, by its ALPN identifier: golang.org/x/net has no HTTP/3 over its QUIC.
const protocolHQ = "hq-interop"

const chunkSize = 64 << 10

type options struct {
	plan        string
	port        int
	certificate string
	privateKey  string
	root        string
	downloads   string
	sessionDir  string
	retry       bool

	connectionWindow int64
	streamWindow     int64
	maxSendBuffer    int64
	idleTimeout      time.Duration
	handshakeTimeout time.Duration

	arguments []string
}

func parseOptions(role string, arguments []string) (*options, error) {
	o := &options{}
	flags := flag.NewFlagSet(role, flag.ContinueOnError)
	flags.Func("protocol", "application `protocol`: hq-interop", func(text string) error {
		if text != protocolHQ {
			return fmt.Errorf("is %s", protocolHQ)
		}
		return nil
	})
	flags.StringVar(&o.plan, "plan", planSingle, "connections of the client: single, resume or each")
	flags.IntVar(&o.port, "port", 443, "UDP `port` of the server")
	flags.StringVar(&o.certificate, "certificate", "/certs/cert.pem", "certificate chain of the server")
	flags.StringVar(&o.privateKey, "private-key", "/certs/priv.key", "private key of the server")
	flags.StringVar(&o.root, "root", "/www", "`directory` that the server serves")
	flags.StringVar(&o.downloads, "downloads", "/downloads", "`directory` that the client writes to")
	flags.StringVar(&o.sessionDir, "session-dir", "", "`directory` in which the client keeps its session")
	flags.BoolVar(&o.retry, "retry", false, "have every client prove its address first")
	flags.Int64Var(&o.connectionWindow, "connection-window", 0, "flow-control `bytes`; 0 is the library's 1 MiB")
	flags.Int64Var(&o.streamWindow, "stream-window", 0, "flow-control `bytes`; 0 is the library's 1 MiB")
	flags.Int64Var(&o.maxSendBuffer, "max-send-buffer", 0,
		"most `bytes` of a stream that are not acknowledged; 0 is the library's 1 MiB")
	flags.DurationVar(&o.idleTimeout, "idle-timeout", time.Minute, "`time` without a packet that ends a connection")
	flags.DurationVar(&o.handshakeTimeout, "handshake-timeout", 20*time.Second, "most `time` that a handshake takes")
	if err := flags.Parse(arguments); err != nil {
		return nil, err
	}
	if min(o.connectionWindow, o.streamWindow, o.maxSendBuffer) < 0 {
		return nil, fmt.Errorf("windows and buffers are not negative")
	}
	o.arguments = flags.Args()
	return o, nil
}

func (o *options) quicConfig(tlsConfig *tls.Config, logs *logs) *quic.Config {
	tlsConfig.MinVersion = tls.VersionTLS13
	tlsConfig.NextProtos = []string{protocolHQ}
	tlsConfig.KeyLogWriter = logs.keyWriter()
	return &quic.Config{
		TLSConfig:                tlsConfig,
		MaxConnReadBufferSize:    o.connectionWindow,
		MaxStreamReadBufferSize:  o.streamWindow,
		MaxStreamWriteBufferSize: o.maxSendBuffer,
		HandshakeTimeout:         o.handshakeTimeout,
		MaxIdleTimeout:           o.idleTimeout,
		QLogLogger:               logs.qlogLogger(),
	}
}

// closeEndpoint says goodbye on all connections and does not wait for the answers, which would take three probe
// timeouts where a peer sends none. It returns when no connection logs any more.
func closeEndpoint(endpoint *quic.Endpoint) {
	expired, cancel := context.WithCancel(context.Background())
	cancel()
	endpoint.Close(expired)
}

func run() error {
	if len(os.Args) < 2 {
		return fmt.Errorf("usage: go-x-net-endpoint (client|server) [--option=value ...] [URL ...]")
	}
	o, err := parseOptions(os.Args[1], os.Args[2:])
	if err != nil {
		return err
	}
	logs, err := openLogs()
	if err != nil {
		return err
	}
	defer logs.close()
	switch role := os.Args[1]; role {
	case "client":
		return runClient(o, logs)
	case "server":
		return runServer(o, logs)
	default:
		return fmt.Errorf("no such role: %s", role)
	}
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "go-x-net-endpoint:", err)
		os.Exit(1)
	}
}
