package main

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"

	"quic-lab/endpoint"
)

// How long a client that has all its files waits for a session ticket it wants.
const ticketPatience = 3 * time.Second

type client struct {
	options   *options
	logs      *logs
	transport *quic.Transport
	sessions  *endpoint.SessionStore // nil if no session is to be kept
	journey   *endpoint.Journey
}

func runClient(ctx context.Context, o *options, logs *logs) error {
	transport, err := openTransport(nil)
	if err != nil {
		return err
	}
	defer transport.Conn.Close()
	defer transport.Close()
	c := &client{options: o, logs: logs, transport: transport}
	if c.sessions, err = o.OpenSessions(); err != nil {
		return err
	}
	if c.journey, err = stack.OpenJourney(); err != nil {
		return err
	}
	defer c.journey.End()
	return o.Fetch(func(urls []*url.URL, earlyData bool) error {
		return c.fetch(ctx, urls, earlyData && o.zeroRTT)
	})
}

// fetch gets the files over one connection, asking again if the server turns early data down.
func (c *client) fetch(ctx context.Context, urls []*url.URL, earlyData bool) error {
	transport, release, err := c.open()
	if err != nil {
		return err
	}
	defer release()
	conn, arrive, err := c.dial(ctx, transport, urls[0], earlyData)
	if err != nil {
		return err
	}
	err = c.fetchAll(ctx, conn, urls, earlyData)
	if errors.Is(err, quic.Err0RTTRejected) {
		if conn, err = conn.NextConnection(ctx); err != nil {
			return err
		}
		// quic-go numbers the streams from the start again but may still send the resets of the failed requests,
		// which would hit the new ones. So the numbers of the failed requests are passed over.
		for range urls {
			if _, err := conn.OpenStream(); err != nil {
				return err
			}
		}
		err = c.fetchAll(ctx, conn, urls, earlyData)
	}
	if err == nil && c.sessions != nil {
		c.sessions.Await(ticketPatience)
	}
	if failure := arrive(); failure != nil {
		err = failure
	}
	state, stats := conn.ConnectionState(), conn.ConnectionStats()
	stack.Tell("resumed=%t early_data=%t received=%d sent=%d lost=%d",
		state.TLS.DidResume, state.Used0RTT, stats.PacketsReceived, stats.PacketsSent, stats.PacketsLost)
	for _, certificate := range state.TLS.PeerCertificates[:min(1, len(state.TLS.PeerCertificates))] {
		// For whoever checks that a server uses the certificate it was given.
		stack.Tell("certificate=%x", sha256.Sum256(certificate.Raw))
	}
	return errors.Join(err, conn.CloseWithError(noError[c.options.protocol], ""))
}

// open returns what a connection is made over, until the function that is returned is called.
func (c *client) open() (*quic.Transport, func(), error) {
	if c.options.SharesSocket() {
		return c.transport, func() {}, nil
	}
	transport, err := openTransport(nil)
	if err != nil {
		return nil, nil, err
	}
	return transport, func() {
		transport.Close()
		transport.Conn.Close()
	}, nil
}

// dial makes a connection, which moves until the function that is returned is called.
func (c *client) dial(
	ctx context.Context, transport *quic.Transport, u *url.URL, earlyData bool,
) (*quic.Conn, func() error, error) {
	address, err := net.ResolveUDPAddr("udp", endpoint.Address(u))
	if err != nil {
		return nil, nil, err
	}
	begun, err := c.journey.Address(address)
	if err != nil {
		return nil, nil, err
	}
	if begun != nil {
		if transport, err = openTransport(begun); err != nil {
			return nil, nil, err
		}
	}
	tlsConfig := &tls.Config{
		ServerName:         u.Hostname(),
		NextProtos:         []string{c.options.protocol},
		InsecureSkipVerify: true,
		KeyLogWriter:       c.logs.KeyWriter(),
	}
	if c.sessions != nil {
		tlsConfig.ClientSessionCache = c.sessions
	}
	dial := transport.Dial
	if earlyData {
		dial = transport.DialEarly
	}
	c.journey.Begin()
	conn, err := dial(ctx, address, tlsConfig, c.options.quicConfig(c.logs))
	if err != nil {
		return nil, nil, err
	}
	return conn, travel(ctx, c.journey, conn, address), nil
}

func (c *client) fetchAll(ctx context.Context, conn *quic.Conn, urls []*url.URL, earlyData bool) error {
	transfer := c.transferHQ
	if c.options.protocol == protocolHTTP3 {
		transport := &http3.Transport{DisableCompression: true}
		connection := transport.NewClientConn(conn)
		if c.options.HasSchedule() {
			return c.followSchedule(ctx, conn, urls, askHTTP3(ctx, connection))
		}
		transfer = c.getHTTP3(connection, earlyData)
		if c.options.Upload {
			transfer = c.postHTTP3(connection)
		}
	}
	if c.options.HasSchedule() {
		return c.followSchedule(ctx, conn, urls, c.askHQ(ctx, conn))
	}
	if c.options.datagrams != nil {
		return c.options.datagrams.Receive(ctx, conn.ReceiveDatagram, func(failure error) bool {
			var end *quic.ApplicationError
			return errors.As(failure, &end) && end.Remote && end.ErrorCode == noError[c.options.protocol]
		})
	}
	return endpoint.Together(urls, func(u *url.URL) error { return transfer(ctx, conn, u) })
}

// followSchedule begins when the handshake is complete.
func (c *client) followSchedule(
	ctx context.Context, conn *quic.Conn, urls []*url.URL, ask func(*endpoint.Request) (endpoint.Body, error),
) error {
	select {
	case <-conn.HandshakeComplete():
	case <-conn.Context().Done():
		return context.Cause(conn.Context())
	case <-ctx.Done():
		return ctx.Err()
	}
	return c.options.FollowSchedule(urls, ask)
}

// askHTTP3 sends the headers of a request before it returns, so that requests leave in their order.
func askHTTP3(
	ctx context.Context, connection *http3.ClientConn,
) func(*endpoint.Request) (endpoint.Body, error) {
	return func(due *endpoint.Request) (endpoint.Body, error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, due.URL.String(), nil)
		if err != nil {
			return nil, err
		}
		if due.Priority != "" {
			request.Header.Set("Priority", due.Priority)
		}
		stream, err := connection.OpenRequestStream(ctx)
		if err != nil {
			return nil, err
		}
		if err := errors.Join(stream.SendRequestHeader(request), stream.Close()); err != nil {
			return nil, err
		}
		return func() (io.ReadCloser, int64, error) {
			response, err := stream.ReadResponse()
			if err != nil {
				return nil, 0, err
			}
			if response.StatusCode != http.StatusOK {
				return nil, 0, errors.Join(fmt.Errorf("status %d", response.StatusCode), response.Body.Close())
			}
			return response.Body, response.ContentLength, nil
		}, nil
	}
}

func (c *client) askHQ(ctx context.Context, conn *quic.Conn) func(*endpoint.Request) (endpoint.Body, error) {
	return func(due *endpoint.Request) (endpoint.Body, error) {
		stream, err := conn.OpenStreamSync(ctx)
		if err != nil {
			return nil, err
		}
		if err := errors.Join(c.options.WriteRequest(stream, due.URL), stream.Close()); err != nil {
			return nil, err
		}
		return func() (io.ReadCloser, int64, error) { return io.NopCloser(stream), -1, nil }, nil
	}
}

func (c *client) getHTTP3(
	connection *http3.ClientConn, earlyData bool,
) func(context.Context, *quic.Conn, *url.URL) error {
	method := http.MethodGet
	if earlyData {
		method = http3.MethodGet0RTT
	}
	return func(ctx context.Context, _ *quic.Conn, u *url.URL) error {
		request, err := http.NewRequestWithContext(ctx, method, u.String(), nil)
		if err != nil {
			return err
		}
		response, err := connection.RoundTrip(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("status %d", response.StatusCode)
		}
		length, err := c.options.Save(u, response.Body)
		if err == nil && response.ContentLength >= 0 && length != response.ContentLength {
			err = fmt.Errorf("%d bytes instead of %d", length, response.ContentLength)
		}
		return err
	}
}

func (c *client) postHTTP3(connection *http3.ClientConn) func(context.Context, *quic.Conn, *url.URL) error {
	return func(ctx context.Context, _ *quic.Conn, u *url.URL) error {
		file, size, err := c.options.Open(u)
		if err != nil {
			return err
		}
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), file)
		if err != nil {
			return errors.Join(err, file.Close())
		}
		request.ContentLength = size
		response, err := connection.RoundTrip(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusCreated {
			return fmt.Errorf("status %d", response.StatusCode)
		}
		_, err = endpoint.Copy(io.Discard, response.Body)
		return err
	}
}

func (c *client) transferHQ(ctx context.Context, conn *quic.Conn, u *url.URL) error {
	stream, err := conn.OpenStreamSync(ctx)
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { stream.CancelRead(0) })
	defer stop()
	if err := c.options.WriteRequest(stream, u); err != nil {
		return err
	}
	if err := stream.Close(); err != nil {
		return err
	}
	return c.options.ReadResponse(stream, u)
}
