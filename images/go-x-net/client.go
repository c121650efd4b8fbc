package main

import (
	"context"
	"crypto/tls"
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
	conn, err := c.endpoint.Dial(ctx, "udp", endpoint.Address(urls[0]), c.config)
	if err != nil {
		return err
	}
	// With nil it would end on the level of transport, which some servers report as abrupt.
	defer conn.Abort(&quic.ConnectionCloseError{})
	err = endpoint.Together(urls, func(u *url.URL) error { return c.get(ctx, conn, u) })
	if err == nil && c.sessions != nil {
		c.sessions.Await(ticketPatience)
	}
	stack.Tell("resumed=%t", conn.ConnectionState().DidResume)
	return err
}

func (c *client) get(ctx context.Context, conn *quic.Conn, u *url.URL) error {
	stream, err := conn.NewStream(ctx)
	if err != nil {
		return err
	}
	defer stream.CloseRead()
	stream.SetReadContext(ctx)
	if err := endpoint.WriteRequest(stream, u); err != nil {
		return err
	}
	if err := stream.CloseWrite(); err != nil {
		return err
	}
	_, err = c.options.Save(u, stream)
	return err
}
