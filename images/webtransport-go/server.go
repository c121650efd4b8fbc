package main

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"strings"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
	"github.com/quic-go/webtransport-go"
)

type connectionKey struct{}

type server struct {
	options  *options
	requests targets
	upgrader *webtransport.Server
}

func runServer(ctx context.Context, o *options, logs *logs) error {
	requests, err := parsePaths(o.requests)
	if err != nil {
		return err
	}
	certificate, err := tls.LoadX509KeyPair(o.certificate, o.privateKey)
	if err != nil {
		return err
	}
	socket, err := net.ListenUDP("udp", &net.UDPAddr{Port: o.port})
	if err != nil {
		return err
	}
	defer socket.Close()
	transport := &quic.Transport{Conn: socket}
	defer transport.Close()
	listener, err := transport.ListenEarly(http3.ConfigureTLSConfig(&tls.Config{
		Certificates: []tls.Certificate{certificate},
		KeyLogWriter: logs.KeyWriter(),
	}), o.quicConfig(logs))
	if err != nil {
		return err
	}
	s := newServer(ctx, o, requests)
	// It says farewell to every connection.
	defer s.upgrader.Close()
	failed := make(chan error, 1)
	go func() { failed <- s.serve(listener) }()
	select {
	case <-ctx.Done():
		return nil
	case err := <-failed:
		return err
	}
}

func newServer(ctx context.Context, o *options, requests targets) *server {
	s := &server{options: o, requests: requests}
	s.upgrader = &webtransport.Server{
		H3: &http3.Server{
			Handler: http.HandlerFunc(func(writer http.ResponseWriter, request *http.Request) {
				s.answer(ctx, writer, request)
			}),
			ConnContext: func(ctx context.Context, conn *quic.Conn) context.Context {
				return context.WithValue(ctx, connectionKey{}, conn)
			},
		},
		Config:               limits(),
		ApplicationProtocols: o.protocols,
		CheckOrigin:          func(*http.Request) bool { return true },
	}
	return s
}

func (s *server) serve(listener *quic.EarlyListener) error {
	for {
		conn, err := listener.Accept(context.Background())
		if err != nil {
			return err
		}
		go func() {
			if err := s.upgrader.ServeQUICConn(conn); err != nil {
				stack.Tell("%v", err)
			}
		}()
	}
}

// answer opens the session that a request asks for, and ends with it.
func (s *server) answer(ctx context.Context, writer http.ResponseWriter, request *http.Request) {
	name := strings.Trim(request.URL.Path, "/")
	if request.Method != http.MethodConnect || !isEndpoint(name) {
		writer.WriteHeader(http.StatusNotFound)
		return
	}
	opened, err := s.upgrader.Upgrade(writer, request)
	if err != nil {
		stack.Tell("%s: %v", name, err)
		writer.WriteHeader(http.StatusInternalServerError)
		return
	}
	conn := request.Context().Value(connectionKey{}).(*quic.Conn)
	err = s.runSession(ctx, newSession(opened, conn, name, s.options))
	if err != nil && ctx.Err() == nil {
		stack.Tell("%s: %v", name, err)
	}
}

func (s *server) runSession(ctx context.Context, session *session) error {
	if !s.options.handshake {
		return session.run(ctx, s.requests.files(session.endpoint))
	}
	if err := session.writeProtocol(); err != nil {
		return err
	}
	return session.await(ctx)
}
