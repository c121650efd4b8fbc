package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"os"

	"golang.org/x/net/quic"

	"quic-lab/endpoint"
)

func runServer(ctx context.Context, o *options, logs *logs) error {
	certificate, err := tls.LoadX509KeyPair(o.Certificate, o.PrivateKey)
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(o.Root)
	if err != nil {
		return err
	}
	defer root.Close()
	config := o.quicConfig(&tls.Config{Certificates: []tls.Certificate{certificate}}, logs)
	config.RequireAddressValidation = o.Retry
	config.MaxUniRemoteStreams = -1
	listener, err := quic.Listen("udp", fmt.Sprintf(":%d", o.Port), config)
	if err != nil {
		return err
	}
	defer closeEndpoint(listener)
	for {
		conn, err := listener.Accept(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		go serve(conn, root)
	}
}

func serve(conn *quic.Conn, root *os.Root) {
	// A connection that the peer has closed stays until this end closes it too.
	defer conn.Abort(nil)
	for {
		stream, err := conn.AcceptStream(context.Background())
		if err != nil {
			return
		}
		go answer(stream, root)
	}
}

func answer(stream *quic.Stream, root *os.Root) {
	// The stream counts as open until it is closed, which waits for the last acknowledgement.
	defer stream.Close()
	if err := endpoint.Answer(stream, root); err != nil {
		stream.StopSending(endpoint.Rejected)
		stream.Reset(endpoint.Rejected)
	}
}
