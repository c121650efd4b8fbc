package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/qlogwriter"
)

// How long the end of the program waits for the last of the qlogs.
const logPatience = time.Second

// The logs that the environment asks for: TLS secrets in $SSLKEYLOGFILE, a qlog per connection in $QLOGDIR.
type logs struct {
	keys    *os.File
	qlogDir string
	writing sync.WaitGroup
}

func openLogs() (*logs, error) {
	l := &logs{qlogDir: os.Getenv("QLOGDIR")}
	if path := os.Getenv("SSLKEYLOGFILE"); path != "" {
		var err error
		if l.keys, err = os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644); err != nil {
			return nil, err
		}
	}
	if l.qlogDir != "" {
		if err := os.MkdirAll(l.qlogDir, 0o755); err != nil {
			return nil, err
		}
	}
	return l, nil
}

func (l *logs) keyWriter() io.Writer {
	if l.keys == nil {
		return nil
	}
	return l.keys
}

// trace starts the qlog of a connection. It is quic-go's default tracer with an end that can be waited for.
func (l *logs) trace(_ context.Context, isClient bool, id quic.ConnectionID) qlogwriter.Trace {
	if l.qlogDir == "" {
		return nil
	}
	role := "server"
	if isClient {
		role = "client"
	}
	file, err := os.Create(filepath.Join(l.qlogDir, fmt.Sprintf("quic-go-%s-%s.sqlog", role, id)))
	if err != nil {
		fmt.Fprintln(os.Stderr, "quic-go-endpoint: no qlog:", err)
		return nil
	}
	sequence := qlogwriter.NewConnectionFileSeq(&bufferedFile{bufio.NewWriterSize(file, 64<<10), file}, isClient, id)
	l.writing.Go(sequence.Run)
	return sequence
}

// close waits until the qlogs of all closed connections are on disk.
func (l *logs) close() {
	written := make(chan struct{})
	go func() {
		l.writing.Wait()
		close(written)
	}()
	select {
	case <-written:
	case <-time.After(logPatience):
	}
	if l.keys != nil {
		l.keys.Close()
	}
}

type bufferedFile struct {
	*bufio.Writer
	file *os.File
}

func (b *bufferedFile) Close() error {
	return errors.Join(b.Flush(), b.file.Close())
}
