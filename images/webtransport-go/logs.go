package main

import (
	"context"
	"io"
	"sync"
	"time"

	"github.com/quic-go/quic-go"
	http3qlog "github.com/quic-go/quic-go/http3/qlog"
	"github.com/quic-go/quic-go/qlog"
	"github.com/quic-go/quic-go/qlogwriter"

	"quic-lab/endpoint"
)

// How long the end of the program waits for the last of the qlogs.
const logPatience = time.Second

type logs struct {
	*endpoint.Logs
	open sync.WaitGroup // the files of the qlogs
}

func openLogs() (*logs, error) {
	shared, err := stack.OpenLogs()
	return &logs{Logs: shared}, err
}

// trace starts the qlog of a connection. It is the default tracer of quic-go's HTTP/3 with an end that can be waited for.
func (l *logs) trace(_ context.Context, isClient bool, id quic.ConnectionID) qlogwriter.Trace {
	if !l.WantsQlog() {
		return nil
	}
	role := "server"
	if isClient {
		role = "client"
	}
	file, err := l.NewQlog(role, id.String())
	if err != nil {
		return nil
	}
	l.open.Add(1)
	schemas := []string{qlog.EventSchema, http3qlog.EventSchema}
	sequence := qlogwriter.NewConnectionFileSeq(&qlogFile{file, l.open.Done}, isClient, id, schemas)
	go sequence.Run()
	return sequence
}

// qlogFile says when it is closed, which quic-go does after the sequence of events has ended.
type qlogFile struct {
	io.WriteCloser
	closed func()
}

func (f *qlogFile) Close() error {
	defer f.closed()
	return f.WriteCloser.Close()
}

// close waits until the qlogs of all closed connections are on disk.
func (l *logs) close() {
	written := make(chan struct{})
	go func() {
		l.open.Wait()
		close(written)
	}()
	select {
	case <-written:
	case <-time.After(logPatience):
	}
	l.Close()
}
