package main

import (
	"io"
	"log/slog"
	"sync"

	"golang.org/x/net/quic"
	"golang.org/x/net/quic/qlog"

	"quic-lab/endpoint"
)

type logs struct {
	*endpoint.Logs

	mutex  sync.Mutex
	traces []io.Closer
}

func openLogs() (*logs, error) {
	shared, err := stack.OpenLogs()
	return &logs{Logs: shared}, err
}

func (l *logs) qlogLogger() *slog.Logger {
	if !l.WantsQlog() {
		return nil
	}
	return slog.New(qlog.NewJSONHandler(qlog.HandlerOptions{Level: quic.QLogLevelFrame, NewTrace: l.newTrace}))
}

// newTrace starts the qlog of a connection. The library never closes one, so that close does it.
func (l *logs) newTrace(info qlog.TraceInfo) (io.WriteCloser, error) {
	trace, err := l.NewQlog(string(info.Vantage), info.GroupID)
	if err != nil {
		return nil, err
	}
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.traces = append(l.traces, trace)
	return trace, nil
}

// close completes the logs, once the endpoint is closed.
func (l *logs) close() {
	for _, trace := range l.traces {
		if err := trace.Close(); err != nil {
			stack.Tell("incomplete qlog: %v", err)
		}
	}
	l.Close()
}
