package main

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
)

// sessionStore keeps the client's last TLS session, on disk if it has a path. golang.org/x/net/quic leaves tickets to
// crypto/tls: a client takes and uses them, a server sends none.
type sessionStore struct {
	path    string
	arrived chan struct{}

	mutex   sync.Mutex
	session *tls.ClientSessionState
}

// What is stored on disk.
type storedSession struct {
	Ticket []byte `json:"ticket"`
	State  []byte `json:"state"`
}

func openSessionStore(directory string) (*sessionStore, error) {
	s := &sessionStore{arrived: make(chan struct{}, 1)}
	if directory == "" {
		return s, nil
	}
	if err := os.MkdirAll(directory, 0o755); err != nil {
		return nil, err
	}
	s.path = filepath.Join(directory, "session.json")
	content, err := os.ReadFile(s.path)
	if os.IsNotExist(err) {
		return s, nil
	}
	if err == nil {
		s.session, err = parseSession(content)
	}
	if err != nil {
		// A session that cannot be used costs a full handshake, nothing more.
		fmt.Fprintln(os.Stderr, "go-x-net-endpoint: the stored session is of no use:", err)
	}
	return s, nil
}

func parseSession(content []byte) (*tls.ClientSessionState, error) {
	var stored storedSession
	if err := json.Unmarshal(content, &stored); err != nil {
		return nil, err
	}
	state, err := tls.ParseSessionState(stored.State)
	if err != nil {
		return nil, err
	}
	// crypto/tls would offer early data by itself, which golang.org/x/net/quic cannot send.
	state.EarlyData = false
	return tls.NewResumptionState(stored.Ticket, state)
}

func formatSession(session *tls.ClientSessionState) ([]byte, error) {
	ticket, state, err := session.ResumptionState()
	if err != nil {
		return nil, err
	}
	bytes, err := state.Bytes()
	if err != nil {
		return nil, err
	}
	return json.Marshal(storedSession{Ticket: ticket, State: bytes})
}

func (s *sessionStore) Get(string) (*tls.ClientSessionState, bool) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.session, s.session != nil
}

func (s *sessionStore) Put(_ string, session *tls.ClientSessionState) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.session = nil
	if session == nil {
		return
	}
	// The way through the stored form is also what takes early data out of it.
	content, err := formatSession(session)
	if err == nil {
		s.session, err = parseSession(content)
	}
	if err == nil && s.path != "" {
		err = os.WriteFile(s.path, content, 0o600)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "go-x-net-endpoint: cannot store the session:", err)
	}
	select {
	case s.arrived <- struct{}{}:
	default:
	}
}
