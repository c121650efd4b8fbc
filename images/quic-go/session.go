package main

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
)

// sessionStore keeps the client's last TLS session, on disk if it has a path. The session carries what quic-go
// needs for early data.
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
	if session, err := readSession(s.path); err == nil {
		s.session = session
	} else if !os.IsNotExist(err) {
		// A session that cannot be used costs a full handshake, nothing more.
		fmt.Fprintln(os.Stderr, "quic-go-endpoint: the stored session is of no use:", err)
	}
	return s, nil
}

func readSession(path string) (*tls.ClientSessionState, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var stored storedSession
	if err := json.Unmarshal(content, &stored); err != nil {
		return nil, err
	}
	state, err := tls.ParseSessionState(stored.State)
	if err != nil {
		return nil, err
	}
	return tls.NewResumptionState(stored.Ticket, state)
}

func (s *sessionStore) Get(string) (*tls.ClientSessionState, bool) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.session, s.session != nil
}

func (s *sessionStore) Put(_ string, session *tls.ClientSessionState) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.session = session
	if session == nil {
		return
	}
	if err := s.write(session); err != nil {
		fmt.Fprintln(os.Stderr, "quic-go-endpoint: cannot store the session:", err)
	}
	select {
	case s.arrived <- struct{}{}:
	default:
	}
}

func (s *sessionStore) write(session *tls.ClientSessionState) error {
	if s.path == "" {
		return nil
	}
	ticket, state, err := session.ResumptionState()
	if err != nil || state == nil {
		return err
	}
	bytes, err := state.Bytes()
	if err != nil {
		return err
	}
	content, err := json.Marshal(storedSession{Ticket: ticket, State: bytes})
	if err != nil {
		return err
	}
	return os.WriteFile(s.path, content, 0o600)
}
