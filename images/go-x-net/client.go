package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/signal"
	"path"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/net/quic"
)

// How the client spreads its requests over connections.
const (
	planSingle = "single" // all on one
	planResume = "resume" // the first on one, the others on a second that resumes its session
	planEach   = "each"   // one each
)

// How long a client that has all its files waits for a session ticket it wants. A server sends its tickets before
// its files, so that this only bridges what was lost; a server without tickets costs all of it.
const ticketPatience = time.Second

type client struct {
	options  *options
	endpoint *quic.Endpoint
	config   *quic.Config
	sessions *sessionStore // nil if no session is to be kept
}

func runClient(o *options, logs *logs) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	urls, err := parseURLs(o.arguments)
	if err != nil {
		return err
	}
	tlsConfig := &tls.Config{InsecureSkipVerify: true}
	c := &client{options: o}
	if o.plan == planResume || o.sessionDir != "" {
		if c.sessions, err = openSessionStore(o.sessionDir); err != nil {
			return err
		}
		tlsConfig.ClientSessionCache = c.sessions
	}
	c.config = o.quicConfig(tlsConfig, logs)
	c.config.MaxBidiRemoteStreams, c.config.MaxUniRemoteStreams = -1, -1
	if c.endpoint, err = quic.Listen("udp", ":0", nil); err != nil {
		return err
	}
	defer closeEndpoint(c.endpoint)

	switch {
	case o.plan == planSingle:
		return c.fetch(ctx, urls)
	case o.plan == planEach:
		for _, u := range urls {
			if err := c.fetch(ctx, []*url.URL{u}); err != nil {
				return err
			}
		}
		return nil
	case o.plan == planResume && len(urls) < 2:
		return errors.New("this test needs two URLs")
	case o.plan == planResume:
		if err := c.fetch(ctx, urls[:1]); err != nil {
			return err
		}
		return c.fetch(ctx, urls[1:])
	default:
		return fmt.Errorf("no such plan: %s", o.plan)
	}
}

func parseURLs(texts []string) ([]*url.URL, error) {
	var urls []*url.URL
	for _, text := range texts {
		u, err := url.Parse(text)
		if err != nil {
			return nil, err
		}
		if u.Scheme != "https" || u.Hostname() == "" || path.Base(u.Path) == "/" || path.Base(u.Path) == "." {
			return nil, fmt.Errorf("not a usable URL: %s", text)
		}
		urls = append(urls, u)
	}
	if len(urls) == 0 {
		return nil, errors.New("the client needs at least one URL")
	}
	return urls, nil
}

// fetch gets the files over one connection.
func (c *client) fetch(ctx context.Context, urls []*url.URL) error {
	port := urls[0].Port()
	if port == "" {
		port = "443"
	}
	conn, err := c.endpoint.Dial(ctx, "udp", net.JoinHostPort(urls[0].Hostname(), port), c.config)
	if err != nil {
		return err
	}
	// With nil it would end on the level of transport, which some servers report as abrupt.
	defer conn.Abort(&quic.ConnectionCloseError{})
	failures := make([]error, len(urls))
	var running sync.WaitGroup
	for index, u := range urls {
		running.Go(func() {
			if err := c.get(ctx, conn, u); err != nil {
				failures[index] = fmt.Errorf("%s: %w", u.Path, err)
			}
		})
	}
	running.Wait()
	err = errors.Join(failures...)
	if err == nil && c.sessions != nil {
		select {
		case <-c.sessions.arrived:
		case <-time.After(ticketPatience):
		}
	}
	fmt.Fprintf(os.Stderr, "go-x-net-endpoint: resumed=%t\n", conn.ConnectionState().DidResume)
	return err
}

func (c *client) get(ctx context.Context, conn *quic.Conn, u *url.URL) error {
	stream, err := conn.NewStream(ctx)
	if err != nil {
		return err
	}
	defer stream.CloseRead()
	stream.SetReadContext(ctx)
	if _, err := fmt.Fprintf(stream, "GET %s\r\n", u.EscapedPath()); err != nil {
		return err
	}
	if err := stream.CloseWrite(); err != nil {
		return err
	}
	return c.save(u, stream)
}

// save writes the body as it arrives.
func (c *client) save(u *url.URL, body io.Reader) error {
	file, err := os.Create(filepath.Join(c.options.downloads, path.Base(u.Path)))
	if err != nil {
		return err
	}
	// The wrappers keep io.CopyBuffer from using a path of its own around the buffer.
	_, err = io.CopyBuffer(struct{ io.Writer }{file}, struct{ io.Reader }{body}, make([]byte, chunkSize))
	return errors.Join(err, file.Close())
}
