package endpoint

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Where a client with a schedule writes when each of its requests was asked for and answered.
const requestLog = "/logs/requests.csv"

// Request is one of a client's schedule.
type Request struct {
	URL      *url.URL
	Priority string // as RFC 9218 writes it; empty where none is sent

	at    time.Duration // not before it, after the handshake
	wait  time.Duration // after the last of those before it
	after []int

	asked, first, complete time.Time
	running                bool
}

// Body waits for the beginning of a response, and returns what follows, with its length, or -1 where nobody said.
type Body func() (io.ReadCloser, int64, error)

// HasSchedule says whether the environment has one: SCHEDULE=AT,WAIT,AFTER,PRIORITY[;…], an entry for each URL.
func (o *Options) HasSchedule() bool {
	return o.schedule != ""
}

// FollowSchedule asks for the URLs in their order as they are due, saves what comes, and writes down the times.
func (o *Options) FollowSchedule(urls []*url.URL, ask func(*Request) (Body, error)) error {
	requests, err := parseSchedule(o.schedule, urls)
	if err != nil {
		return fmt.Errorf("SCHEDULE: %w", err)
	}
	zero := time.Now()
	ended := make(chan end)
	running := 0
	var failures []error
	for {
		now := time.Now()
		next, waiting := time.Time{}, false
		for _, request := range requests {
			if request.running {
				continue
			}
			due, ready := request.due(zero, requests)
			if !ready {
				continue
			}
			if due.After(now) {
				if !waiting || due.Before(next) {
					next, waiting = due, true
				}
				continue
			}
			request.running, request.asked = true, time.Now()
			body, err := ask(request)
			if err != nil {
				failures = append(failures, fmt.Errorf("%s: %w", request.URL.Path, err))
				continue
			}
			running++
			go func() { ended <- o.receive(request, body) }()
		}
		if running == 0 && !waiting {
			break
		}
		var alarm <-chan time.Time
		if waiting {
			alarm = time.After(time.Until(next))
		}
		select {
		case end := <-ended:
			running--
			if end.failure != nil {
				failures = append(failures, fmt.Errorf("%s: %w", end.request.URL.Path, end.failure))
			} else {
				end.request.complete = end.at
			}
		case <-alarm:
		}
	}
	if len(failures) == 0 && slices.ContainsFunc(requests, func(r *Request) bool { return r.complete.IsZero() }) {
		failures = append(failures, errors.New("SCHEDULE: some requests come after themselves"))
	}
	return errors.Join(append(failures, writeRequests(requests))...)
}

// due is when a request is to be made, and whether all before it are complete.
func (r *Request) due(zero time.Time, requests []*Request) (time.Time, bool) {
	due := zero.Add(r.at)
	for _, number := range r.after {
		before := requests[number]
		if before.complete.IsZero() {
			return time.Time{}, false
		}
		if at := before.complete.Add(r.wait); at.After(due) {
			due = at
		}
	}
	return due, true
}

// end is that of one request.
type end struct {
	request *Request
	at      time.Time
	failure error
}

func (o *Options) receive(request *Request, body Body) end {
	err := o.Receive(request, body)
	return end{request, time.Now(), err}
}

// Receive saves the response to a request, and fails where its length is not what was said.
func (o *Options) Receive(request *Request, body Body) error {
	content, expected, err := body()
	if err != nil {
		return err
	}
	defer content.Close()
	length, err := o.Save(request.URL, io.TeeReader(content, firstByte{request}))
	if err == nil && expected >= 0 && length != expected {
		err = fmt.Errorf("%d bytes instead of %d", length, expected)
	}
	return err
}

type firstByte struct{ request *Request }

func (f firstByte) Write(data []byte) (int, error) {
	if len(data) > 0 && f.request.first.IsZero() {
		f.request.first = time.Now()
	}
	return len(data), nil
}

func writeRequests(requests []*Request) error {
	var text strings.Builder
	text.WriteString("request,asked_ns,first_byte_ns,complete_ns\n")
	for number, request := range requests {
		text.WriteString(strconv.Itoa(number))
		for _, moment := range []time.Time{request.asked, request.first, request.complete} {
			text.WriteByte(',')
			if !moment.IsZero() {
				text.WriteString(strconv.FormatInt(moment.UnixNano(), 10))
			}
		}
		text.WriteByte('\n')
	}
	if err := os.MkdirAll(filepath.Dir(requestLog), 0o755); err != nil {
		return err
	}
	return os.WriteFile(requestLog, []byte(text.String()), 0o644)
}

func parseSchedule(text string, urls []*url.URL) ([]*Request, error) {
	entries := strings.Split(text, ";")
	if len(entries) != len(urls) {
		return nil, fmt.Errorf("%d entries for %d URLs", len(entries), len(urls))
	}
	requests := make([]*Request, len(urls))
	for number, entry := range entries {
		request, err := parseRequest(entry, len(urls))
		if err != nil {
			return nil, fmt.Errorf("%q: %w", entry, err)
		}
		request.URL = urls[number]
		requests[number] = request
	}
	return requests, nil
}

func parseRequest(entry string, count int) (*Request, error) {
	// A priority may have a comma.
	fields := strings.SplitN(entry, ",", 4)
	if len(fields) != 4 {
		return nil, errors.New("AT,WAIT,AFTER,PRIORITY is expected")
	}
	request := &Request{Priority: fields[3]}
	for index, to := range []*time.Duration{&request.at, &request.wait} {
		seconds, err := strconv.ParseFloat(fields[index], 64)
		if err != nil {
			return nil, err
		}
		*to = time.Duration(seconds * float64(time.Second)).Round(time.Microsecond)
	}
	if fields[2] == "" {
		return request, nil
	}
	for _, part := range strings.Split(fields[2], "+") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		from, err := strconv.Atoi(first)
		if err != nil {
			return nil, err
		}
		to, err := strconv.Atoi(last)
		if err != nil {
			return nil, err
		}
		if from < 0 || to >= count {
			return nil, fmt.Errorf("there is no request %s", part)
		}
		for number := from; number <= to; number++ {
			request.after = append(request.after, number)
		}
	}
	return request, nil
}
