package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
	"github.com/quic-go/webtransport-go"

	"quic-lab/endpoint"
)

const (
	get  = "GET"
	push = "PUSH"
	// A longer line is no request.
	longestLine = 8 << 10
	// How long the closing of a session is left on its way before the connection may be closed, which would discard it;
	// and how long after the streams of a connection its own end may come.
	farewell = 100 * time.Millisecond

	// The code of a session that an end closes because not all its files came.
	sessionFailed webtransport.SessionErrorCode = 1
	// The code of a stream with a request that cannot be answered.
	streamRejected webtransport.StreamErrorCode = 1
)

// way is how files are asked for.
type way struct {
	ask    func(s *session, ctx context.Context, name string) (io.Reader, error)
	atOnce int // how many are asked for at once; 0 is all
}

// The middle words of TESTCASE.
var ways = map[string]*way{
	"unidirectional": {ask: (*session).askUnidirectional},
	"bidirectional":  {ask: (*session).askBidirectional},
	"datagram":       {ask: (*session).askDatagram, atOnce: datagramsAtOnce},
}

// session is one of WebTransport, from its opening to its end.
type session struct {
	*webtransport.Session
	conn     *quic.Conn
	endpoint string
	options  *options

	mutex    sync.Mutex
	expected map[string]chan io.Reader // files that are asked for, and come on a stream or in a datagram of their own
}

func newSession(opened *webtransport.Session, conn *quic.Conn, endpoint string, o *options) *session {
	return &session{
		Session: opened, conn: conn, endpoint: endpoint, options: o, expected: make(map[string]chan io.Reader),
	}
}

// run answers the peer, and asks it for the files if the test case says so. Who asks closes the session, and who does
// not awaits that.
func (s *session) run(ctx context.Context, files []string) error {
	go s.answerBidirectional()
	go s.answerUnidirectional()
	go s.receiveDatagrams()
	way := s.options.way
	if way == nil {
		return s.await(ctx)
	}
	limit := way.atOnce
	if limit == 0 {
		limit = len(files)
	}
	err := atOnce(files, limit, func(name string) error {
		if err := s.fetch(ctx, way, name); err != nil {
			return fmt.Errorf("%s: %w", name, describe(err))
		}
		return nil
	})
	if err != nil {
		s.CloseWithError(sessionFailed, "not all files came")
		return err
	}
	return s.close()
}

func (s *session) fetch(ctx context.Context, way *way, name string) error {
	content, err := way.ask(s, ctx, name)
	if err != nil {
		return err
	}
	return s.save(name, content)
}

// close closes the session without an error, and leaves that time to be sent.
func (s *session) close() error {
	err := s.CloseWithError(0, "")
	select {
	case <-s.conn.Context().Done():
	case <-time.After(farewell):
	}
	return err
}

// await waits for the peer to close the session, and fails if it ends in another way.
func (s *session) await(ctx context.Context) error {
	select {
	case <-s.Context().Done():
		return s.ending()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// ending says why the session is over; nil if no error did it.
func (s *session) ending() error {
	// Of a closed session it returns the reason.
	_, err := s.AcceptUniStream(context.Background())
	if closed, ok := errors.AsType[*webtransport.SessionError](err); ok {
		if closed.ErrorCode == 0 {
			return nil
		}
		return describe(err)
	}
	select {
	case <-s.conn.Context().Done():
		return connectionEnding(context.Cause(s.conn.Context()))
	case <-time.After(farewell):
	}
	// The end of its stream alone is that of a session, without an error (draft-ietf-webtrans-http3, section 6). The
	// library keeps no more than the words.
	if broken, ok := errors.AsType[*http3.Error](err); ok && broken.ErrorMessage == io.EOF.Error() {
		return nil
	}
	return err
}

// connectionEnding is nil if the peer closed the connection without an error, which closes its sessions. The code 0 is
// what servers of the library have for that, beside HTTP/3's own.
func connectionEnding(cause error) error {
	closed, ok := errors.AsType[*quic.ApplicationError](cause)
	if ok && closed.Remote && (closed.ErrorCode == 0 || closed.ErrorCode == noError) {
		return nil
	}
	return cause
}

// describe gives a closed session's error words, of which it has none but the peer's.
func describe(err error) error {
	if closed, ok := errors.AsType[*webtransport.SessionError](err); ok {
		return fmt.Errorf("the session was closed with code %d: %q", closed.ErrorCode, closed.Message)
	}
	return err
}

// expect says that a file is asked for. It comes on the channel.
func (s *session) expect(name string) <-chan io.Reader {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	answer := make(chan io.Reader, 1)
	s.expected[name] = answer
	return answer
}

// deliver hands a file to who asked for it. It says no if nobody did, or if the file came before.
func (s *session) deliver(name string, content io.Reader) bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	answer, ok := s.expected[name]
	if ok {
		delete(s.expected, name)
		answer <- content
	}
	return ok
}

// wait waits for a file that is asked for. It returns nil once the patience is over.
func (s *session) wait(ctx context.Context, answer <-chan io.Reader, patience <-chan time.Time) (io.Reader, error) {
	select {
	case content := <-answer:
		return content, nil
	case <-patience:
		return nil, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-s.Context().Done():
		if err := s.ending(); err != nil {
			return nil, err
		}
		return nil, errors.New("the session was closed before it came")
	}
}

func (s *session) askUnidirectional(ctx context.Context, name string) (io.Reader, error) {
	answer := s.expect(name)
	stream, err := s.OpenUniStreamSync(ctx)
	if err != nil {
		return nil, err
	}
	if err := writeRequest(stream, name); err != nil {
		return nil, err
	}
	return s.wait(ctx, answer, nil)
}

func (s *session) askBidirectional(ctx context.Context, name string) (io.Reader, error) {
	stream, err := s.OpenStreamSync(ctx)
	if err != nil {
		return nil, err
	}
	return stream, writeRequest(stream, name)
}

func writeRequest(stream io.WriteCloser, name string) error {
	if _, err := io.WriteString(stream, get+" "+name); err != nil {
		return err
	}
	return stream.Close()
}

func (s *session) answerBidirectional() {
	for {
		stream, err := s.AcceptStream(s.Context())
		if err != nil {
			return
		}
		go func() {
			if err := s.answerStream(stream); err != nil {
				s.tell(err)
				stream.CancelRead(streamRejected)
				stream.CancelWrite(streamRejected)
			}
		}()
	}
}

// answerStream reads the request of a stream, and writes the file to it.
func (s *session) answerStream(stream *webtransport.Stream) error {
	method, name, err := readLine(bufio.NewReaderSize(stream, longestLine))
	if err != nil {
		return err
	}
	if method != get {
		return fmt.Errorf("not a request: %s %s", method, name)
	}
	file, err := s.open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	if _, err := endpoint.Copy(stream, file); err != nil {
		return err
	}
	return stream.Close()
}

func (s *session) answerUnidirectional() {
	for {
		stream, err := s.AcceptUniStream(s.Context())
		if err != nil {
			return
		}
		go func() {
			if err := s.takeStream(stream); err != nil {
				s.tell(err)
				stream.CancelRead(streamRejected)
			}
		}()
	}
}

// takeStream reads the first line of a stream, and answers its request or hands its file to who waits for it.
func (s *session) takeStream(stream *webtransport.ReceiveStream) error {
	reader := bufio.NewReaderSize(stream, longestLine)
	method, name, err := readLine(reader)
	if err != nil {
		return err
	}
	switch method {
	case get:
		return s.pushFile(name)
	case push:
		if !s.deliver(name, reader) {
			return fmt.Errorf("nobody waits for %s", name)
		}
		return nil
	default:
		return fmt.Errorf("not a request: %s %s", method, name)
	}
}

// pushFile answers a request with a stream of its own.
func (s *session) pushFile(name string) error {
	file, err := s.open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	stream, err := s.OpenUniStreamSync(s.Context())
	if err != nil {
		return err
	}
	if _, err := endpoint.Copy(stream, io.MultiReader(strings.NewReader(pushLine(name)), file)); err != nil {
		stream.CancelWrite(streamRejected)
		return err
	}
	return stream.Close()
}

func pushLine(name string) string {
	return push + " " + name + "\n"
}

// readLine reads a method and a file's name, up to the end of the line or of all.
func readLine(reader *bufio.Reader) (method, name string, err error) {
	line, err := reader.ReadSlice('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return "", "", err
	}
	method, name, _ = strings.Cut(strings.TrimRight(string(line), "\r\n"), " ")
	return method, name, nil
}

// tell says what could not be answered, unless the end of the session is the reason.
func (s *session) tell(err error) {
	if s.Context().Err() == nil {
		stack.Tell("%s: %v", s.endpoint, describe(err))
	}
}

// atOnce does something with each of the items, in their order, with so many at once. It tells of the first failure.
func atOnce[T any](items []T, limit int, do func(T) error) error {
	next := make(chan int)
	failures := make([]error, len(items))
	var running sync.WaitGroup
	for range min(limit, len(items)) {
		running.Go(func() {
			for index := range next {
				failures[index] = do(items[index])
			}
		})
	}
	for index := range items {
		next <- index
	}
	close(next)
	running.Wait()
	return summary(failures)
}

// summary is the first of the failures, with the number of the others.
func summary(failures []error) error {
	var first error
	others := -1
	for _, failure := range failures {
		if failure == nil {
			continue
		}
		others++
		if first == nil {
			first = failure
		}
	}
	if others > 0 {
		return fmt.Errorf("%w (and %d more)", first, others)
	}
	return first
}
