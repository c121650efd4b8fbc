package main

import (
	"context"
	"errors"
	"net"

	"github.com/quic-go/quic-go"

	"quic-lab/endpoint"
)

func openTransport(local *net.UDPAddr) (*quic.Transport, error) {
	socket, err := net.ListenUDP("udp", local)
	if err != nil {
		return nil, err
	}
	return &quic.Transport{Conn: socket}, nil
}

// travel makes the moves of a connection until the function that is returned is called, which says what failed. Their
// sockets stay open until the end of the program.
func travel(ctx context.Context, journey *endpoint.Journey, conn *quic.Conn, peer *net.UDPAddr) func() error {
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		err := journey.Travel(ctx, conn.HandshakeComplete(), (&traveller{conn: conn, peer: peer}).migrate)
		if err != nil {
			// Nobody is to wait for the files any more.
			conn.CloseWithError(0, "")
		}
		ended <- err
	}()
	return func() error {
		stop()
		return <-ended
	}
}

type traveller struct {
	conn *quic.Conn
	peer *net.UDPAddr
	path *quic.Path // the one in use, nil if it is that of the handshake
}

// migrate holds its probe back until the handshake is confirmed: quic-go does.
func (t *traveller) migrate(ctx context.Context, next endpoint.Move, tell func(net.Addr)) error {
	local, err := next.Address(t.peer)
	if err != nil {
		return err
	}
	transport, err := openTransport(local)
	if err != nil {
		return err
	}
	path, err := t.conn.AddPath(transport)
	if err != nil {
		// A server may forbid it, and then the client must not (RFC 9000 §9).
		stack.Tell("no move to %v: %v", transport.Conn.LocalAddr(), err)
		return transport.Close()
	}
	tell(transport.Conn.LocalAddr())
	if err := path.Probe(ctx); err != nil {
		if ctx.Err() == nil {
			return err
		}
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			stack.Tell("the path from %v was not validated", transport.Conn.LocalAddr())
		}
		return path.Close()
	}
	if err := path.Switch(); err != nil {
		return err
	}
	if t.path != nil {
		// Its connection ID is given back.
		err = t.path.Close()
	}
	t.path = path
	return err
}
