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
	"os"
	"os/signal"
	"path"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
)

// How the client spreads its requests over connections.
const (
	planSingle    = "single"     // all on one
	planResume    = "resume"     // the first on one, the others on a second that resumes its session
	planEarlyData = "early-data" // the same, with the second one's requests as early data
	planEach      = "each"       // one each
)

const (
	// How long a client that has all its files waits for a session ticket it wants.
	ticketPatience = 3 * time.Second
	chunkSize      = 64 << 10
)

type client struct {
	options   *options
	logs      *logs
	transport *quic.Transport
	sessions  *sessionStore // nil if no session is to be kept
	earlyData bool
}

func runClient(o *options, logs *logs) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	urls, err := parseURLs(o.arguments)
	if err != nil {
		return err
	}
	socket, err := net.ListenUDP("udp", nil)
	if err != nil {
		return err
	}
	defer socket.Close()
	c := &client{options: o, logs: logs, transport: &quic.Transport{Conn: socket}, earlyData: o.sessionDir != "" && o.zeroRTT}
	defer c.transport.Close()
	resuming := o.plan == planResume || o.plan == planEarlyData
	if resuming || o.sessionDir != "" {
		if c.sessions, err = openSessionStore(o.sessionDir); err != nil {
			return err
		}
	}

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
	case resuming && len(urls) < 2:
		return errors.New("this test needs two URLs")
	case resuming:
		if err := c.fetch(ctx, urls[:1]); err != nil {
			return err
		}
		c.earlyData = o.zeroRTT && (c.earlyData || o.plan == planEarlyData)
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

// fetch gets the files over one connection, asking again if the server turns early data down.
func (c *client) fetch(ctx context.Context, urls []*url.URL) error {
	conn, err := c.dial(ctx, urls[0])
	if err != nil {
		return err
	}
	err = c.fetchAll(ctx, conn, urls)
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
		err = c.fetchAll(ctx, conn, urls)
	}
	if err == nil && c.sessions != nil {
		select {
		case <-c.sessions.arrived:
		case <-time.After(ticketPatience):
		}
	}
	state, stats := conn.ConnectionState(), conn.ConnectionStats()
	fmt.Fprintf(os.Stderr, "quic-go-endpoint: resumed=%t early_data=%t received=%d sent=%d lost=%d\n",
		state.TLS.DidResume, state.Used0RTT, stats.PacketsReceived, stats.PacketsSent, stats.PacketsLost)
	for _, certificate := range state.TLS.PeerCertificates[:min(1, len(state.TLS.PeerCertificates))] {
		// For whoever checks that a server uses the certificate it was given.
		fmt.Fprintf(os.Stderr, "quic-go-endpoint: certificate=%x\n", sha256.Sum256(certificate.Raw))
	}
	return errors.Join(err, conn.CloseWithError(noError[c.options.protocol], ""))
}

func (c *client) dial(ctx context.Context, u *url.URL) (*quic.Conn, error) {
	port := u.Port()
	if port == "" {
		port = "443"
	}
	address, err := net.ResolveUDPAddr("udp", net.JoinHostPort(u.Hostname(), port))
	if err != nil {
		return nil, err
	}
	tlsConfig := &tls.Config{
		ServerName:         u.Hostname(),
		NextProtos:         []string{c.options.protocol},
		InsecureSkipVerify: true,
		KeyLogWriter:       c.logs.keyWriter(),
	}
	if c.sessions != nil {
		tlsConfig.ClientSessionCache = c.sessions
	}
	if c.earlyData {
		return c.transport.DialEarly(ctx, address, tlsConfig, c.options.quicConfig(c.logs))
	}
	return c.transport.Dial(ctx, address, tlsConfig, c.options.quicConfig(c.logs))
}

func (c *client) fetchAll(ctx context.Context, conn *quic.Conn, urls []*url.URL) error {
	get := c.getHQ
	if c.options.protocol == protocolHTTP3 {
		transport := &http3.Transport{DisableCompression: true}
		get = c.getHTTP3(transport.NewClientConn(conn))
	}
	failures := make([]error, len(urls))
	var running sync.WaitGroup
	for index, u := range urls {
		running.Go(func() {
			if err := get(ctx, conn, u); err != nil {
				failures[index] = fmt.Errorf("%s: %w", u.Path, err)
			}
		})
	}
	running.Wait()
	return errors.Join(failures...)
}

func (c *client) getHTTP3(connection *http3.ClientConn) func(context.Context, *quic.Conn, *url.URL) error {
	method := http.MethodGet
	if c.earlyData {
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
		length, err := c.save(u, response.Body)
		if err == nil && response.ContentLength >= 0 && length != response.ContentLength {
			err = fmt.Errorf("%d bytes instead of %d", length, response.ContentLength)
		}
		return err
	}
}

func (c *client) getHQ(ctx context.Context, conn *quic.Conn, u *url.URL) error {
	stream, err := conn.OpenStreamSync(ctx)
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { stream.CancelRead(0) })
	defer stop()
	if _, err := fmt.Fprintf(stream, "GET %s\r\n", u.EscapedPath()); err != nil {
		return err
	}
	if err := stream.Close(); err != nil {
		return err
	}
	_, err = c.save(u, stream)
	return err
}

// save writes the body as it arrives.
func (c *client) save(u *url.URL, body io.Reader) (int64, error) {
	file, err := os.Create(filepath.Join(c.options.downloads, path.Base(u.Path)))
	if err != nil {
		return 0, err
	}
	// The wrappers keep io.CopyBuffer from using a path of its own around the buffer.
	length, err := io.CopyBuffer(struct{ io.Writer }{file}, struct{ io.Reader }{body}, make([]byte, chunkSize))
	return length, errors.Join(err, file.Close())
}
