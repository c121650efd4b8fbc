package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
)

// The error code with which an HTTP/0.9 request is turned down; the protocol defines none.
const rejected = 0x10b

func runServer(o *options, logs *logs) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	certificate, err := tls.LoadX509KeyPair(o.certificate, o.privateKey)
	if err != nil {
		return err
	}
	socket, err := net.ListenUDP("udp", &net.UDPAddr{Port: o.port})
	if err != nil {
		return err
	}
	defer socket.Close()
	transport := &quic.Transport{Conn: socket, VerifySourceAddress: func(net.Addr) bool { return o.retry }}
	defer transport.Close()
	tlsConfig := &tls.Config{
		Certificates: []tls.Certificate{certificate},
		NextProtos:   []string{o.protocol},
		KeyLogWriter: logs.keyWriter(),
	}
	if o.protocol == protocolHTTP3 {
		tlsConfig = http3.ConfigureTLSConfig(tlsConfig)
	}
	listener, err := transport.ListenEarly(tlsConfig, o.quicConfig(logs))
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(o.root)
	if err != nil {
		return err
	}
	defer root.Close()

	failed := make(chan error, 1)
	go func() {
		if o.protocol == protocolHTTP3 {
			server := &http3.Server{Handler: http.FileServerFS(root.FS())}
			failed <- server.ServeListener(listener)
		} else {
			failed <- serveHQ(listener, root)
		}
	}()
	select {
	case <-ctx.Done():
		return nil
	case err := <-failed:
		return err
	}
}

func serveHQ(listener *quic.EarlyListener, root *os.Root) error {
	for {
		conn, err := listener.Accept(context.Background())
		if err != nil {
			return err
		}
		go func() {
			for {
				stream, err := conn.AcceptStream(context.Background())
				if err != nil {
					return
				}
				go answerHQ(stream, root)
			}
		}()
	}
}

func answerHQ(stream *quic.Stream, root *os.Root) {
	file, err := readHQ(stream, root)
	if err != nil {
		stream.CancelRead(rejected)
		stream.CancelWrite(rejected)
		return
	}
	defer file.Close()
	if _, err := io.CopyBuffer(struct{ io.Writer }{stream}, struct{ io.Reader }{file}, make([]byte, chunkSize)); err != nil {
		stream.CancelWrite(rejected)
		return
	}
	stream.Close()
}

// readHQ reads the request and opens the file that it names.
func readHQ(stream io.Reader, root *os.Root) (*os.File, error) {
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
