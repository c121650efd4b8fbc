package endpoint

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Logs are those that the environment asks for: TLS secrets in $SSLKEYLOGFILE, a qlog per connection in $QLOGDIR.
type Logs struct {
	stack   Stack
	keys    *os.File
	qlogDir string
}

// OpenLogs opens the file of the secrets and makes the directory of the qlogs.
func (s Stack) OpenLogs() (*Logs, error) {
	l := &Logs{stack: s, qlogDir: os.Getenv("QLOGDIR")}
	if path := os.Getenv("SSLKEYLOGFILE"); path != "" {
		var err error
		if l.keys, err = os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644); err != nil {
			return nil, err
		}
	}
	if l.qlogDir != "" {
		if err := os.MkdirAll(l.qlogDir, 0o755); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// KeyWriter is for tls.Config, to which nil means no secrets.
func (l *Logs) KeyWriter() io.Writer {
	if l.keys == nil {
		return nil
	}
	return l.keys
}

// WantsQlog says whether NewQlog is to be called at all.
func (l *Logs) WantsQlog() bool {
	return l.qlogDir != ""
}

// NewQlog starts the qlog of a connection, which is whole only when it is closed. It tells of an error itself.
func (l *Logs) NewQlog(role, id string) (io.WriteCloser, error) {
	file, err := os.Create(filepath.Join(l.qlogDir, fmt.Sprintf("%s-%s-%s.sqlog", l.stack.Name, role, id)))
	if err != nil {
		l.stack.Tell("no qlog: %v", err)
		return nil, err
	}
	return &bufferedFile{bufio.NewWriterSize(file, 64<<10), file}, nil
}

// Close is for the end of the program, after that of the qlogs.
func (l *Logs) Close() {
	if l.keys != nil {
		l.keys.Close()
	}
}

type bufferedFile struct {
	*bufio.Writer
	file *os.File
}

func (b *bufferedFile) Close() error {
	return errors.Join(b.Flush(), b.file.Close())
}
