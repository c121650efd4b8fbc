package endpoint

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

const (
	// Where a client writes which datagrams came, and when.
	datagramLog = "/logs/datagrams.csv"
	// How long a server with nothing left to send leaves the last on their way before it closes the connection.
	datagramFarewell = time.Second
	// How much longer than the server sends a client waits for the end of the connection.
	datagramPatience = 5 * time.Second
	// A sequence number, and when it was sent (ns since the epoch), each of 8 bytes.
	datagramHead = 16
)

// Datagrams are those that a server sends at equal times, as media does (RFC 9221).
type Datagrams struct {
	every   time.Duration
	packets int // each time
	size    int // bytes of each
	count   int // times
}

// ReadDatagrams reads them from the environment: DATAGRAMS=EVERY,PACKETS,SIZE,COUNT, with EVERY in seconds. Without it
// there are none.
func ReadDatagrams() (*Datagrams, error) {
	text := os.Getenv("DATAGRAMS")
	if text == "" {
		return nil, nil
	}
	fields := strings.Split(text, ",")
	if len(fields) != 4 {
		return nil, fmt.Errorf("DATAGRAMS: %q is not EVERY,PACKETS,SIZE,COUNT", text)
	}
	seconds, err := strconv.ParseFloat(fields[0], 64)
	d := &Datagrams{every: time.Duration(seconds * float64(time.Second)).Round(time.Microsecond)}
	for index, to := range []*int{&d.packets, &d.size, &d.count} {
		value, failure := strconv.Atoi(fields[index+1])
		*to, err = value, errors.Join(err, failure)
	}
	if err != nil || d.every <= 0 || d.packets <= 0 || d.size < datagramHead || d.count <= 0 {
		return nil, fmt.Errorf("DATAGRAMS: %q is not EVERY,PACKETS,SIZE,COUNT", text)
	}
	return d, nil
}

// Send sends them all, each group at its time, and returns once they are on their way.
func (d *Datagrams) Send(ctx context.Context, send func([]byte) error) error {
	begun := time.Now()
	for turn := range d.count {
		if err := sleep(ctx, time.Until(begun.Add(time.Duration(turn)*d.every))); err != nil {
			return err
		}
		for packet := range d.packets {
			data := make([]byte, d.size)
			binary.BigEndian.PutUint64(data, uint64(turn*d.packets+packet))
			binary.BigEndian.PutUint64(data[8:], uint64(time.Now().UnixNano()))
			if err := send(data); err != nil {
				return err
			}
		}
	}
	return sleep(ctx, datagramFarewell)
}

func sleep(ctx context.Context, left time.Duration) error {
	select {
	case <-time.After(left):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Receive writes down what comes until the connection is closed, which isEnd knows by its error, or its time is over.
func (d *Datagrams) Receive(
	ctx context.Context, receive func(context.Context) ([]byte, error), isEnd func(error) bool,
) error {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(d.count)*d.every+datagramFarewell+datagramPatience)
	defer cancel()
	file, err := os.Create(datagramLog)
	if err != nil {
		return err
	}
	log := bufio.NewWriter(file)
	fmt.Fprintln(log, "sequence,sent_ns,received_ns")
	received := 0
	for {
		data, failure := receive(ctx)
		if failure != nil {
			// The end of a connection may be lost.
			if !isEnd(failure) && !errors.Is(failure, context.DeadlineExceeded) {
				err = failure
			}
			break
		}
		if len(data) < datagramHead {
			continue
		}
		received++
		fmt.Fprintf(log, "%d,%d,%d\n",
			binary.BigEndian.Uint64(data), binary.BigEndian.Uint64(data[8:]), time.Now().UnixNano())
	}
	if err == nil && received == 0 {
		err = errors.New("no datagram came")
	}
	return errors.Join(err, log.Flush(), file.Close())
}
