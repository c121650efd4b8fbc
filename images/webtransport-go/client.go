package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
	"github.com/quic-go/webtransport-go"

	"quic-lab/endpoint"
)

// runClient opens all sessions at once, on one connection.
func runClient(ctx context.Context, o *options, logs *logs) error {
	sessions, server, err := parseURLs(o.requests)
	if err != nil {
		return err
	}
	socket, err := net.ListenUDP("udp", nil)
	if err != nil {
		return err
	}
	defer socket.Close()
	transport := &quic.Transport{Conn: socket}
	defer transport.Close()
	conn, err := dial(ctx, transport, server, o, logs)
	if err != nil {
		return err
	}
	// What waits for the peer ends with the connection.
	stop := context.AfterFunc(ctx, func() { conn.CloseWithError(noError, "") })
	defer stop()
	opener := &webtransport.Transport{Config: limits(), ApplicationProtocols: o.protocols}
	connection, err := opener.NewClientConn(conn)
	if err != nil {
		return errors.Join(err, conn.CloseWithError(noError, ""))
	}
	defer opener.Close()
	err = atOnce(sessions, len(sessions), func(t *target) error {
		if err := runTarget(ctx, o, conn, connection, server, t); err != nil {
			return fmt.Errorf("%s: %w", t.endpoint, err)
		}
		return nil
	})
	return errors.Join(err, conn.CloseWithError(noError, ""))
}

func dial(ctx context.Context, transport *quic.Transport, server *url.URL, o *options, logs *logs) (*quic.Conn, error) {
	address, err := net.ResolveUDPAddr("udp", endpoint.Address(server))
	if err != nil {
		return nil, err
	}
	tlsConfig := &tls.Config{
		ServerName:         server.Hostname(),
		NextProtos:         []string{http3.NextProtoH3},
		InsecureSkipVerify: true,
		KeyLogWriter:       logs.KeyWriter(),
	}
	return transport.Dial(ctx, address, tlsConfig, o.quicConfig(logs))
}

// runTarget opens a session, and ends with it.
func runTarget(
	ctx context.Context, o *options, conn *quic.Conn, connection *webtransport.ClientConn, server *url.URL, t *target,
) error {
	_, opened, err := connection.Dial(ctx, server.JoinPath(t.endpoint).String(), nil)
	if err != nil {
		return err
	}
	s := newSession(opened, conn, t.endpoint, o)
	if o.handshake {
		if err := s.writeProtocol(); err != nil {
			return err
		}
		return s.close()
	}
	return s.run(ctx, t.files)
}
