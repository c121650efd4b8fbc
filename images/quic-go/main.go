// A QUIC file client and server over quic-go, for interop and performance measurements.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/quic-go/quic-go"
)

// The application protocols, by their ALPN identifiers.
const (
	protocolHTTP3 = "h3"
	protocolHQ    = "hq-interop"
)

// The application error code for a good end.
var noError = map[string]quic.ApplicationErrorCode{protocolHTTP3: 0x100, protocolHQ: 0}

type options struct {
	protocol    string
	plan        string
	port        int
	certificate string
	privateKey  string
	root        string
	downloads   string
	sessionDir  string
	retry       bool

	connectionWindow uint64
	streamWindow     uint64
	maxUDPPayload    uint
	pathMTUDiscovery bool
	zeroRTT          bool
	idleTimeout      time.Duration
	handshakeTimeout time.Duration

	arguments []string
}

func parseOptions(role string, arguments []string) (*options, error) {
	o := &options{pathMTUDiscovery: true, zeroRTT: true}
	flags := flag.NewFlagSet(role, flag.ContinueOnError)
	flags.StringVar(&o.protocol, "protocol", protocolHTTP3, "application `protocol`: h3 or hq-interop")
	flags.StringVar(&o.plan, "plan", planSingle, "connections of the client: single, resume, early-data or each")
	flags.IntVar(&o.port, "port", 443, "UDP `port` of the server")
	flags.StringVar(&o.certificate, "certificate", "/certs/cert.pem", "certificate chain of the server")
	flags.StringVar(&o.privateKey, "private-key", "/certs/priv.key", "private key of the server")
	flags.StringVar(&o.root, "root", "/www", "`directory` that the server serves")
	flags.StringVar(&o.downloads, "downloads", "/downloads", "`directory` that the client writes to")
	flags.StringVar(&o.sessionDir, "session-dir", "", "`directory` in which the client keeps its session")
	flags.BoolVar(&o.retry, "retry", false, "have every client prove its address first")
	flags.Uint64Var(&o.connectionWindow, "connection-window", 0, "fixed flow-control `bytes`; 0 is quic-go's growing default")
	flags.Uint64Var(&o.streamWindow, "stream-window", 0, "fixed flow-control `bytes`; 0 is quic-go's growing default")
	flags.UintVar(&o.maxUDPPayload, "max-udp-payload", 0, "fixed packet size in `bytes`; 0 lets quic-go discover it")
	onOrOff(flags, &o.pathMTUDiscovery, "path-mtu-discovery", "probe for larger packets")
	onOrOff(flags, &o.zeroRTT, "zero-rtt", "request as early data where a session is kept, and accept such requests")
	flags.DurationVar(&o.idleTimeout, "idle-timeout", time.Minute, "`time` without a packet after which a connection is given up")
	flags.DurationVar(&o.handshakeTimeout, "handshake-timeout", 20*time.Second, "the same during the handshake")
	if err := flags.Parse(arguments); err != nil {
		return nil, err
	}
	if o.protocol != protocolHTTP3 && o.protocol != protocolHQ {
		return nil, fmt.Errorf("no such protocol: %s", o.protocol)
	}
	if o.maxUDPPayload != 0 && (o.maxUDPPayload < 1200 || o.maxUDPPayload > 1452) {
		return nil, fmt.Errorf("the packet size must lie between 1200 and 1452")
	}
	o.arguments = flags.Args()
	return o, nil
}

// onOrOff makes a switch that is written "on" or "off", as all endpoints of this harness take it.
func onOrOff(flags *flag.FlagSet, value *bool, name, usage string) {
	flags.Func(name, usage+": `on` or off", func(text string) error {
		if text != "on" && text != "off" {
			return errors.New("is on or off")
		}
		*value = text == "on"
		return nil
	})
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
		Tracer:                         logs.trace,
	}
}

func run() error {
	if len(os.Args) < 2 {
		return errors.New("usage: quic-go-endpoint (client|server) [--option=value ...] [URL ...]")
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
		fmt.Fprintln(os.Stderr, "quic-go-endpoint:", err)
		os.Exit(1)
	}
}
