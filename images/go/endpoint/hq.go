package endpoint

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
)

// ProtocolHQ is the ALPN identifier of HTTP/0.9 over QUIC, as interop runners speak it.
const ProtocolHQ = "hq-interop"

// A longer line is no request.
const longestRequest = 8 << 10

// Rejected is the error code with which an HTTP/0.9 request is turned down; the protocol defines none.
const Rejected = 0x10b

// WriteRequest asks for a file, or sends one, after which the client ends its side of the stream.
func (o *Options) WriteRequest(stream io.Writer, u *url.URL) error {
	if !o.Upload {
		_, err := fmt.Fprintf(stream, "%s %s\r\n", http.MethodGet, u.EscapedPath())
		return err
	}
	file, _, err := o.Open(u)
	if err != nil {
		return err
	}
	defer file.Close()
	if _, err := fmt.Fprintf(stream, "%s %s\r\n", http.MethodPost, u.EscapedPath()); err != nil {
		return err
	}
	_, err = Copy(stream, file)
	return err
}

// ReadResponse reads what a server answers: the file that was asked for, or the end of the stream once it has the one
// that was sent.
func (o *Options) ReadResponse(stream io.Reader, u *url.URL) error {
	if o.Upload {
		_, err := Copy(io.Discard, stream)
		return err
	}
	_, err := o.Save(u, stream)
	return err
}

// Answer reads the request of a stream and does what it asks: writes the file that it names, or keeps what follows it.
func Answer(stream io.ReadWriter, root *os.Root) error {
	rest := bufio.NewReaderSize(stream, longestRequest)
	line, err := rest.ReadSlice('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	method, path, _ := strings.Cut(strings.TrimRight(string(line), " \r\n"), " /")
	switch method {
	case http.MethodGet:
		file, err := open(root, path)
		if err != nil {
			return err
		}
		defer file.Close()
		_, err = Copy(stream, file)
		return err
	case http.MethodPost:
		_, err := Keep(path, rest)
		return err
	default:
		return errors.New("not a request")
	}
}

func open(root *os.Root, path string) (*os.File, error) {
	file, err := root.Open(path)
	if err != nil {
		return nil, err
	}
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		file.Close()
		return nil, errors.New("not a file")
	}
	return file, nil
}
