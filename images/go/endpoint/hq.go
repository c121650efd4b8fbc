package endpoint

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"
)

// ProtocolHQ is the ALPN identifier of HTTP/0.9 over QUIC, as interop runners speak it.
const ProtocolHQ = "hq-interop"

// Rejected is the error code with which an HTTP/0.9 request is turned down; the protocol defines none.
const Rejected = 0x10b

// WriteRequest asks for a file, after which the client ends its side of the stream.
func WriteRequest(stream io.Writer, u *url.URL) error {
	_, err := fmt.Fprintf(stream, "GET %s\r\n", u.EscapedPath())
	return err
}

// ReadRequest reads the request and opens the file that it names.
func ReadRequest(stream io.Reader, root *os.Root) (*os.File, error) {
	line, err := bufio.NewReader(io.LimitReader(stream, 8<<10)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	path, found := strings.CutPrefix(strings.TrimRight(line, " \r\n"), "GET /")
	if !found {
		return nil, errors.New("not a request")
	}
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
