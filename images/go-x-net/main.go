// A QUIC file client and server over golang.org/x/net/quic, for interop and performance measurements.
package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"time"

	"golang.org/x/net/quic"

	"quic-lab/endpoint"
)

// golang.org/x/net has neither HTTP/3 over its QUIC nor early data, and leaves tickets to crypto/tls: a client takes
// and uses them, a server sends none.
var stack = endpoint.Stack{Name: "go-x-net", EarlyData: false}

type options struct {
	endpoint.Options

	connectionWindow int64
	streamWindow     int64
	maxSendBuffer    int64
	idleTimeout      time.Duration
	handshakeTimeout time.Duration
}

func parseOptions(role string, arguments []string) (*options, error) {
	o := &options{}
	flags := o.Flags(stack, role)
	flags.Func("protocol", "application `protocol`: hq-interop", func(text string) error {
		if text != endpoint.ProtocolHQ {
			return fmt.Errorf("is %s", endpoint.ProtocolHQ)
		}
		return nil
	})
	flags.Int64Var(&o.connectionWindow, "connection-window", 0, "flow-control `bytes`; 0 is the library's 1 MiB")
	flags.Int64Var(&o.streamWindow, "stream-window", 0, "flow-control `bytes`; 0 is the library's 1 MiB")
	flags.Int64Var(&o.maxSendBuffer, "max-send-buffer", 0,
		"most `bytes` of a stream that are not acknowledged; 0 is the library's 1 MiB")
	flags.DurationVar(&o.idleTimeout, "idle-timeout", time.Minute, "`time` without a packet that ends a connection")
	flags.DurationVar(&o.handshakeTimeout, "handshake-timeout", time.Minute, "most `time` that a handshake takes")
	if err := o.Parse(flags, arguments); err != nil {
		return nil, err
	}
	if min(o.connectionWindow, o.streamWindow, o.maxSendBuffer) < 0 {
		return nil, fmt.Errorf("windows and buffers are not negative")
	}
	return o, nil
}

func (o *options) quicConfig(tlsConfig *tls.Config, logs *logs) *quic.Config {
	tlsConfig.MinVersion = tls.VersionTLS13
	tlsConfig.NextProtos = []string{endpoint.ProtocolHQ}
	tlsConfig.KeyLogWriter = logs.KeyWriter()
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
func closeEndpoint(e *quic.Endpoint) {
	expired, cancel := context.WithCancel(context.Background())
	cancel()
	e.Close(expired)
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
