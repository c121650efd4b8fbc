package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"time"
)

const (
	// How many files are asked for at once in datagrams. quic-go's HTTP/3 keeps at most 32 datagrams of a stream that
	// nobody has read, and drops what comes then: more at once would be lost at either end, and not on the way.
	datagramsAtOnce = 16
	// A datagram may be lost, and so may the request for it. So a file that does not come is asked for again after a
	// second, and given up after the fifth.
	datagramPatience = time.Second
	datagramAttempts = 5
	// How many requests may wait for their answers, so that reading need not.
	datagramBacklog = 4096
)

func (s *session) askDatagram(ctx context.Context, name string) (io.Reader, error) {
	answer := s.expect(name)
	for range datagramAttempts {
		if err := s.SendDatagram([]byte(get + " " + name)); err != nil {
			return nil, err
		}
		content, err := s.wait(ctx, answer, time.After(datagramPatience))
		if content != nil || err != nil {
			return content, err
		}
	}
	return nil, fmt.Errorf("it did not come, and was asked for %d times", datagramAttempts)
}

// receiveDatagrams reads them as they come, and does nothing that takes time: files are read and written elsewhere.
func (s *session) receiveDatagrams() {
	requests := make(chan string, datagramBacklog)
	defer close(requests)
	go s.answerDatagrams(requests)
	for {
		data, err := s.ReceiveDatagram(s.Context())
		if err != nil {
			return
		}
		line, content, isWhole := bytes.Cut(data, []byte("\n"))
		method, name, _ := strings.Cut(strings.TrimRight(string(line), "\r"), " ")
		switch {
		case method == get:
			select {
			case requests <- name:
			default:
				s.tell(fmt.Errorf("%s: too many requests", name))
			}
		case method == push && isWhole:
			// What was asked for twice may come twice.
			s.deliver(name, bytes.NewReader(content))
		default:
			s.tell(fmt.Errorf("a datagram of %d bytes is neither a request nor a file", len(data)))
		}
	}
}

func (s *session) answerDatagrams(requests <-chan string) {
	for name := range requests {
		if err := s.pushDatagram(name); err != nil {
			s.tell(err)
		}
	}
}

func (s *session) pushDatagram(name string) error {
	file, err := s.open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	content, err := io.ReadAll(file)
	if err != nil {
		return err
	}
	if err := s.SendDatagram(append([]byte(pushLine(name)), content...)); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}
