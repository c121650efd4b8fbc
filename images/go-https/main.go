// A client of HTTP/2 over TLS 1.3 and TCP, for comparisons with those of QUIC.
package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"

	"golang.org/x/net/http2"

	"quic-lab/endpoint"
)

var stack = endpoint.Stack{Name: "go-https", EarlyData: false}

func run(ctx context.Context, role string, arguments []string) error {
	if role != "client" {
		return fmt.Errorf("no such role: %s", role)
	}
	o := &endpoint.Options{}
	if err := o.Parse(o.Flags(stack, role), arguments); err != nil {
		return err
	}
	logs, err := stack.OpenLogs()
	if err != nil {
		return err
	}
	defer logs.Close()
	return o.Fetch(func(urls []*url.URL, _ bool) error { return fetch(ctx, o, logs, urls) })
}

// fetch gets the files over one connection.
func fetch(ctx context.Context, o *endpoint.Options, logs *endpoint.Logs, urls []*url.URL) error {
	dialer := &tls.Dialer{Config: &tls.Config{
		MinVersion:         tls.VersionTLS13,
		NextProtos:         []string{http2.NextProtoTLS},
		InsecureSkipVerify: true,
		KeyLogWriter:       logs.KeyWriter(),
	}}
	socket, err := dialer.DialContext(ctx, "tcp", endpoint.Address(urls[0]))
	if err != nil {
		return err
	}
	transport := &http2.Transport{DisableCompression: true}
	connection, err := transport.NewClientConn(socket)
	if err != nil {
		return errors.Join(err, socket.Close())
	}
	defer connection.Close()
	ask := func(due *endpoint.Request) (endpoint.Body, error) { return ask(ctx, connection, due) }
	if o.HasSchedule() {
		return o.FollowSchedule(urls, ask)
	}
	return endpoint.Together(urls, func(u *url.URL) error {
		request := &endpoint.Request{URL: u}
		body, err := ask(request)
		if err != nil {
			return err
		}
		return o.Receive(request, body)
	})
}

// ask returns once the headers of a request are written, so that requests leave in their order.
func ask(ctx context.Context, connection *http2.ClientConn, due *endpoint.Request) (endpoint.Body, error) {
	written := make(chan struct{})
	trace := &httptrace.ClientTrace{WroteHeaders: func() { close(written) }}
	request, err := http.NewRequestWithContext(
		httptrace.WithClientTrace(ctx, trace), http.MethodGet, due.URL.String(), nil)
	if err != nil {
		return nil, err
	}
	if due.Priority != "" {
		request.Header.Set("Priority", due.Priority)
	}
	type answer struct {
		response *http.Response
		failure  error
	}
	answered := make(chan answer, 1)
	go func() {
		response, err := connection.RoundTrip(request)
		answered <- answer{response, err}
	}()
	select {
	case <-written:
	case early := <-answered:
		answered <- early
	}
	return func() (io.ReadCloser, int64, error) {
		reply := <-answered
		if reply.failure != nil {
			return nil, 0, reply.failure
		}
		if reply.response.StatusCode != http.StatusOK {
			return nil, 0, errors.Join(
				fmt.Errorf("status %d", reply.response.StatusCode), reply.response.Body.Close())
		}
		return reply.response.Body, reply.response.ContentLength, nil
	}, nil
}

func main() {
	stack.Main(run)
}
