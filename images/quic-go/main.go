// A QUIC file client and server over quic-go, for interop and performance measurements.
package main

import (
	"context"
	"fmt"
	"time"

	"github.com/quic-go/quic-go"

	"quic-lab/endpoint"
)

var stack = endpoint.Stack{Name: "quic-go", EarlyData: true, Moves: []string{endpoint.Migrate}}

// The ALPN identifier of HTTP/3.
const protocolHTTP3 = "h3"

// The application error code for a good end.
var noError = map[string]quic.ApplicationErrorCode{protocolHTTP3: 0x100, endpoint.ProtocolHQ: 0}

type options struct {
	endpoint.Options
	protocol string

	connectionWindow uint64
	streamWindow     uint64
	maxUDPPayload    uint
	pathMTUDiscovery bool
	zeroRTT          bool
	idleTimeout      time.Duration
	handshakeTimeout time.Duration
	datagrams        *endpoint.Datagrams // nil where no datagrams are asked for
}

func parseOptions(role string, arguments []string) (*options, error) {
	o := &options{pathMTUDiscovery: true, zeroRTT: true}
	flags := o.Flags(stack, role)
	flags.StringVar(&o.protocol, "protocol", protocolHTTP3, "application `protocol`: h3 or hq-interop")
	flags.Uint64Var(&o.connectionWindow, "connection-window", 0, "fixed flow-control `bytes`; 0 is quic-go's growing default")
	flags.Uint64Var(&o.streamWindow, "stream-window", 0, "fixed flow-control `bytes`; 0 is quic-go's growing default")
	flags.UintVar(&o.maxUDPPayload, "max-udp-payload", 0, "fixed packet size in `bytes`; 0 lets quic-go discover it")
	endpoint.OnOrOff(flags, &o.pathMTUDiscovery, "path-mtu-discovery", "probe for larger packets")
	endpoint.OnOrOff(flags, &o.zeroRTT, "zero-rtt",
		"request as early data where a session is kept, and accept such requests")
	flags.DurationVar(&o.idleTimeout, "idle-timeout", time.Minute, "`time` without a packet after which a connection is given up")
	flags.DurationVar(&o.handshakeTimeout, "handshake-timeout", 20*time.Second, "the same during the handshake")
	if err := o.Parse(flags, arguments); err != nil {
		return nil, err
	}
	var err error
	if o.datagrams, err = endpoint.ReadDatagrams(); err != nil {
		return nil, err
	}
	if o.protocol != protocolHTTP3 && o.protocol != endpoint.ProtocolHQ {
		return nil, fmt.Errorf("no such protocol: %s", o.protocol)
	}
	if o.maxUDPPayload != 0 && (o.maxUDPPayload < 1200 || o.maxUDPPayload > 1452) {
		return nil, fmt.Errorf("the packet size must lie between 1200 and 1452")
	}
	return o, nil
}

func (o *options) quicConfig(logs *logs) *quic.Config {
	return &quic.Config{
		HandshakeIdleTimeout:           o.handshakeTimeout,
		MaxIdleTimeout:                 o.idleTimeout,
		InitialConnectionReceiveWindow: o.connectionWindow,
		MaxConnectionReceiveWindow:     o.connectionWindow,
		InitialStreamReceiveWindow:     o.streamWindow,
		MaxStreamReceiveWindow:         o.streamWindow,
		InitialPacketSize:              uint16(o.maxUDPPayload),
		// quic-go cannot be told how far to probe, so a largest size is kept by not probing.
		DisablePathMTUDiscovery: o.maxUDPPayload != 0 || !o.pathMTUDiscovery,
		Allow0RTT:               o.zeroRTT,
		EnableDatagrams:         o.datagrams != nil,
		Tracer:                  logs.trace,
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
