package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/net/quic"
	"golang.org/x/net/quic/qlog"
)

// The logs that the environment asks for: TLS secrets in $SSLKEYLOGFILE, a qlog per connection in $QLOGDIR.
type logs struct {
	keys    *os.File
	qlogDir string

	mutex  sync.Mutex
	traces []*bufferedFile
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

func (l *logs) qlogLogger() *slog.Logger {
	if l.qlogDir == "" {
		return nil
	}
	return slog.New(qlog.NewJSONHandler(qlog.HandlerOptions{Level: quic.QLogLevelFrame, NewTrace: l.newTrace}))
}

// newTrace starts the qlog of a connection. The library never closes one, so that close does it.
func (l *logs) newTrace(info qlog.TraceInfo) (io.WriteCloser, error) {
	name := fmt.Sprintf("go-x-net-%s-%s.sqlog", info.Vantage, info.GroupID)
	file, err := os.Create(filepath.Join(l.qlogDir, name))
	if err != nil {
		fmt.Fprintln(os.Stderr, "go-x-net-endpoint: no qlog:", err)
		return nil, err
	}
	trace := &bufferedFile{bufio.NewWriterSize(file, 64<<10), file}
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.traces = append(l.traces, trace)
	return trace, nil
}

// close completes the logs, once the endpoint is closed.
func (l *logs) close() {
	for _, trace := range l.traces {
		if err := trace.Close(); err != nil {
			fmt.Fprintln(os.Stderr, "go-x-net-endpoint: incomplete qlog:", err)
		}
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
