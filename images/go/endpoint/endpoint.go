// Package endpoint is what the lab's own QUIC endpoints in Go share, whatever stack they are built on: the command
// line, plans, files on either side, HTTP/0.9 requests, sessions kept, moves, logs. Nothing here knows a QUIC library.
package endpoint

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// Stack is a stack as the shared part sees it.
type Stack struct {
	Name      string   // its program is NAME-endpoint
	EarlyData bool     // whether its client can send early data
	Moves     []string // how its client can change its address
}

// Main is the program: it runs until it is told to end, and says what went wrong.
func (s Stack) Main(run func(ctx context.Context, role string, arguments []string) error) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	err := fmt.Errorf("usage: %s-endpoint (client|server) [--option=value ...] [URL ...]", s.Name)
	if len(os.Args) >= 2 {
		err = run(ctx, os.Args[1], os.Args[2:])
	}
	if err != nil {
		s.Tell("%v", err)
		os.Exit(1)
	}
}

// Tell writes a line to stderr.
func (s Stack) Tell(format string, values ...any) {
	fmt.Fprintf(os.Stderr, s.Name+"-endpoint: "+format+"\n", values...)
}
