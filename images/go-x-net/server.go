package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"golang.org/x/net/quic"
)

// The error code with which a request is turned down; HTTP/0.9 defines none.
const rejected = 0x10b

func runServer(o *options, logs *logs) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	certificate, err := tls.LoadX509KeyPair(o.certificate, o.privateKey)
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(o.root)
	if err != nil {
		return err
	}
	defer root.Close()
	config := o.quicConfig(&tls.Config{Certificates: []tls.Certificate{certificate}}, logs)
	config.RequireAddressValidation = o.retry
	config.MaxUniRemoteStreams = -1
	endpoint, err := quic.Listen("udp", fmt.Sprintf(":%d", o.port), config)
	if err != nil {
		return err
	}
	defer closeEndpoint(endpoint)
	for {
		conn, err := endpoint.Accept(ctx)
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
	file, err := readRequest(stream, root)
	if err != nil {
		stream.StopSending(rejected)
		stream.Reset(rejected)
		return
	}
	defer file.Close()
	// The wrappers keep io.CopyBuffer from using a path of its own around the buffer.
	_, err = io.CopyBuffer(struct{ io.Writer }{stream}, struct{ io.Reader }{file}, make([]byte, chunkSize))
	if err != nil {
		stream.Reset(rejected)
	}
}

// readRequest reads the request and opens the file that it names.
func readRequest(stream io.Reader, root *os.Root) (*os.File, error) {
	line, err := bufio.NewReader(io.LimitReader(stream, 8<<10)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	path, found := strings.CutPrefix(strings.TrimRight(line, " \r\n"), "GET /")
	if !found {
		return nil, errors.New("not a request")
	}
	file, err := root.Open(path)
	if err != nil {
		return nil, err
	}
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		file.Close()
		return nil, errors.New("not a file")
	}
	return file, nil
}
