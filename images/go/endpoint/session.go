package endpoint

import (
	"crypto/tls"
	"encoding/json"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// SessionStore keeps the client's last TLS session, on disk if it has a path: a tls.ClientSessionCache for one server.
type SessionStore struct {
	stack   Stack
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

// OpenSessions reads the stored session, if any. There is no store, but nil, where no session is to be kept.
func (o *Options) OpenSessions() (*SessionStore, error) {
	if o.sessionDir == "" && !o.resumes() {
		return nil, nil
	}
	s := &SessionStore{stack: o.stack, arrived: make(chan struct{}, 1)}
	if o.sessionDir == "" {
		return s, nil
	}
	if err := os.MkdirAll(o.sessionDir, 0o755); err != nil {
		return nil, err
	}
	s.path = filepath.Join(o.sessionDir, "session.json")
	content, err := os.ReadFile(s.path)
	if os.IsNotExist(err) {
		return s, nil
	}
	if err == nil {
		s.session, err = s.parse(content)
	}
	if err != nil {
		// A session that cannot be used costs a full handshake, nothing more.
		s.stack.Tell("the stored session is of no use: %v", err)
	}
	return s, nil
}

func (s *SessionStore) parse(content []byte) (*tls.ClientSessionState, error) {
	var stored storedSession
	if err := json.Unmarshal(content, &stored); err != nil {
		return nil, err
	}
	state, err := tls.ParseSessionState(stored.State)
	if err != nil {
		return nil, err
	}
	if !s.stack.EarlyData {
		// crypto/tls would offer early data by itself, which the stack could not send.
		state.EarlyData = false
	}
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

// Get is called by crypto/tls.
func (s *SessionStore) Get(string) (*tls.ClientSessionState, bool) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.session, s.session != nil
}

// Put is called by crypto/tls.
func (s *SessionStore) Put(_ string, session *tls.ClientSessionState) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.session = nil
	if session == nil {
		return
	}
	// The way through the stored form is also what takes early data out of it where the stack has none.
	content, err := formatSession(session)
	if err == nil {
		s.session, err = s.parse(content)
	}
	if err == nil && s.path != "" {
		err = os.WriteFile(s.path, content, 0o600)
	}
	if err != nil {
		s.stack.Tell("cannot store the session: %v", err)
	}
	select {
	case s.arrived <- struct{}{}:
	default:
	}
}

// Await waits for a session to arrive, but not for ever: a server need not send any.
func (s *SessionStore) Await(patience time.Duration) {
	select {
	case <-s.arrived:
	case <-time.After(patience):
	}
}
