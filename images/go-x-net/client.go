package main

import (
	"context"
	"crypto/tls"
	"io"
	"net/url"
	"time"

	"golang.org/x/net/quic"

	"quic-lab/endpoint"
)

// How long a client that has all its files waits for a session ticket it wants. A server sends its tickets before
// its files, so that this only bridges what was lost; a server without tickets costs all of it.
const ticketPatience = time.Second

type client struct {
	options  *options
	endpoint *quic.Endpoint
	config   *quic.Config
	sessions *endpoint.SessionStore // nil if no session is to be kept
}

func runClient(ctx context.Context, o *options, logs *logs) error {
	sessions, err := o.OpenSessions()
	if err != nil {
		return err
	}
	// Of which there are none: golang.org/x/net changes no address.
	if _, err := stack.OpenJourney(); err != nil {
		return err
	}
	tlsConfig := &tls.Config{InsecureSkipVerify: true}
	if sessions != nil {
		tlsConfig.ClientSessionCache = sessions
	}
	c := &client{options: o, config: o.quicConfig(tlsConfig, logs), sessions: sessions}
	c.config.MaxBidiRemoteStreams, c.config.MaxUniRemoteStreams = -1, -1
	if c.endpoint, err = quic.Listen("udp", ":0", nil); err != nil {
		return err
	}
	defer closeEndpoint(c.endpoint)
	return o.Fetch(func(urls []*url.URL, _ bool) error { return c.fetch(ctx, urls) })
}

// fetch gets the files over one connection.
func (c *client) fetch(ctx context.Context, urls []*url.URL) error {
	local := c.endpoint
	if !c.options.SharesSocket() {
		var err error
		if local, err = quic.Listen("udp", ":0", nil); err != nil {
			return err
		}
		defer closeEndpoint(local)
	}
	conn, err := local.Dial(ctx, "udp", endpoint.Address(urls[0]), c.config)
	if err != nil {
		return err
	}
	// With nil it would end on the level of transport, which some servers report as abrupt.
	defer conn.Abort(&quic.ConnectionCloseError{})
	if c.options.HasSchedule() {
		err = c.options.FollowSchedule(urls, func(due *endpoint.Request) (endpoint.Body, error) {
			stream, err := c.ask(ctx, conn, due.URL)
			return func() (io.ReadCloser, int64, error) { return io.NopCloser(stream), -1, nil }, err
		})
	} else {
		err = endpoint.Together(urls, func(u *url.URL) error { return c.transfer(ctx, conn, u) })
	}
	if err == nil && c.sessions != nil {
		c.sessions.Await(ticketPatience)
	}
	stack.Tell("resumed=%t", conn.ConnectionState().DidResume)
	return err
}

// ask sends a request, or a file, before it returns.
func (c *client) ask(ctx context.Context, conn *quic.Conn, u *url.URL) (*quic.Stream, error) {
	stream, err := conn.NewStream(ctx)
	if err != nil {
		return nil, err
	}
	stream.SetReadContext(ctx)
	if err := c.options.WriteRequest(stream, u); err != nil {
		return nil, err
	}
	if err := stream.CloseWrite(); err != nil {
		return nil, err
	}
	return stream, nil
}

func (c *client) transfer(ctx context.Context, conn *quic.Conn, u *url.URL) error {
	stream, err := c.ask(ctx, conn, u)
	if err != nil {
		return err
	}
	defer stream.CloseRead()
	return c.options.ReadResponse(stream, u)
}
