package main

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"os"
	"sync/atomic"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"

	"quic-lab/endpoint"
)

func runServer(ctx context.Context, o *options, logs *logs) error {
	certificate, err := tls.LoadX509KeyPair(o.Certificate, o.PrivateKey)
	if err != nil {
		return err
	}
	socket, err := net.ListenUDP("udp", &net.UDPAddr{Port: o.Port})
	if err != nil {
		return err
	}
	defer socket.Close()
	transport := &quic.Transport{Conn: socket, VerifySourceAddress: func(net.Addr) bool { return o.Retry }}
	defer transport.Close()
	tlsConfig := &tls.Config{
		Certificates: []tls.Certificate{certificate},
		NextProtos:   []string{o.protocol},
		KeyLogWriter: logs.KeyWriter(),
	}
	if o.protocol == protocolHTTP3 {
		tlsConfig = http3.ConfigureTLSConfig(tlsConfig)
	}
	quicConfig := o.quicConfig(logs)
	if os.Getenv("ASKED") == "zerortt-rejected" {
		quicConfig.GetConfigForClient = rejectLater(quicConfig.Clone())
	}
	early, err := transport.ListenEarly(tlsConfig, quicConfig)
	if err != nil {
		return err
	}
	listener := &witness{early}
	root, err := os.OpenRoot(o.Root)
	if err != nil {
		return err
	}
	defer root.Close()

	failed := make(chan error, 1)
	go func() {
		if o.protocol == protocolHTTP3 {
			server := &http3.Server{Handler: answerHTTP3(http.FileServerFS(root.FS()))}
			failed <- server.ServeListener(listener)
		} else {
			failed <- serveHQ(listener, root, o.datagrams)
		}
	}()
	select {
	case <-ctx.Done():
		return nil
	case err := <-failed:
		return err
	}
}

// rejectLater returns what lets the first connection have tickets for early data, and takes none on those after it.
func rejectLater(first *quic.Config) func(*quic.ClientInfo) (*quic.Config, error) {
	later := first.Clone()
	later.Allow0RTT = false
	var hasFirst atomic.Bool
	return func(*quic.ClientInfo) (*quic.Config, error) {
		if hasFirst.Swap(true) {
			return later, nil
		}
		return first, nil
	}
}

// answerHTTP3 keeps the files that are sent, and leaves all else to the files that are served.
func answerHTTP3(files http.Handler) http.HandlerFunc {
	return func(writer http.ResponseWriter, request *http.Request) {
		if request.Method != http.MethodPost {
			files.ServeHTTP(writer, request)
			return
		}
		length, err := endpoint.Keep(request.URL.Path, request.Body)
		if err != nil || request.ContentLength >= 0 && length != request.ContentLength {
			stack.Tell("%s: %d bytes of %d: %v", request.URL.Path, length, request.ContentLength, err)
			writer.WriteHeader(http.StatusInternalServerError)
			return
		}
		writer.WriteHeader(http.StatusCreated)
	}
}

// witness tells of each connection whether it resumed a session, for whoever checks that clients keep theirs.
type witness struct{ *quic.EarlyListener }

func (w *witness) Accept(ctx context.Context) (*quic.Conn, error) {
	conn, err := w.EarlyListener.Accept(ctx)
	if err == nil {
		go func() {
			select {
			case <-conn.HandshakeComplete():
				stack.Tell("resumed=%t", conn.ConnectionState().TLS.DidResume)
			case <-conn.Context().Done():
			}
		}()
	}
	return conn, err
}

func serveHQ(listener *witness, root *os.Root, datagrams *endpoint.Datagrams) error {
	for {
		conn, err := listener.Accept(context.Background())
		if err != nil {
			return err
		}
		if datagrams != nil {
			go sendDatagrams(conn, datagrams)
			continue
		}
		go func() {
			for {
				stream, err := conn.AcceptStream(context.Background())
				if err != nil {
					return
				}
				go answerHQ(stream, root)
			}
		}()
	}
}

// sendDatagrams sends them once the handshake is complete, and closes the connection behind them.
func sendDatagrams(conn *quic.Conn, datagrams *endpoint.Datagrams) {
	select {
	case <-conn.HandshakeComplete():
	case <-conn.Context().Done():
		return
	}
	if err := datagrams.Send(conn.Context(), conn.SendDatagram); err != nil {
		stack.Tell("%v", err)
	}
	conn.CloseWithError(noError[endpoint.ProtocolHQ], "")
}

func answerHQ(stream *quic.Stream, root *os.Root) {
	if err := endpoint.Answer(stream, root); err != nil {
		stream.CancelRead(endpoint.Rejected)
		stream.CancelWrite(endpoint.Rejected)
		return
	}
	stream.Close()
}
