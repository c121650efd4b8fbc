package main

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"os"

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
	early, err := transport.ListenEarly(tlsConfig, o.quicConfig(logs))
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
			server := &http3.Server{Handler: http.FileServerFS(root.FS())}
			failed <- server.ServeListener(listener)
		} else {
			failed <- serveHQ(listener, root)
		}
	}()
	select {
	case <-ctx.Done():
		return nil
	case err := <-failed:
		return err
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

func serveHQ(listener *witness, root *os.Root) error {
	for {
		conn, err := listener.Accept(context.Background())
		if err != nil {
			return err
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

func answerHQ(stream *quic.Stream, root *os.Root) {
	file, err := endpoint.ReadRequest(stream, root)
	if err != nil {
		stream.CancelRead(endpoint.Rejected)
		stream.CancelWrite(endpoint.Rejected)
		return
	}
	defer file.Close()
	if _, err := endpoint.Copy(stream, file); err != nil {
		stream.CancelWrite(endpoint.Rejected)
		return
	}
	stream.Close()
}
