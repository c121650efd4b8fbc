package main

import (
	"context"
	"sync"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/qlogwriter"

	"quic-lab/endpoint"
)

// How long the end of the program waits for the last of the qlogs.
const logPatience = time.Second

type logs struct {
	*endpoint.Logs
	writing sync.WaitGroup
}

func openLogs() (*logs, error) {
	shared, err := stack.OpenLogs()
	return &logs{Logs: shared}, err
}

// trace starts the qlog of a connection. It is quic-go's default tracer with an end that can be waited for.
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
	sequence := qlogwriter.NewConnectionFileSeq(file, isClient, id)
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
	l.Close()
}
