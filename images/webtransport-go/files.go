package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"quic-lab/endpoint"
)

// Where a handshake's protocol is written down.
const protocolFile = "negotiated_protocol.txt"

// path is that of a file of the endpoint, below a root.
func (s *session) path(name string) (string, error) {
	if !filepath.IsLocal(name) {
		return "", fmt.Errorf("not a file's name: %q", name)
	}
	return filepath.Join(s.endpoint, name), nil
}

// open opens a file that the peer asks for.
func (s *session) open(name string) (*os.File, error) {
	path, err := s.path(name)
	if err != nil {
		return nil, err
	}
	file, err := os.OpenInRoot(s.options.root, path)
	if err != nil {
		return nil, err
	}
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		file.Close()
		return nil, fmt.Errorf("%s: not a file", path)
	}
	return file, nil
}

// save writes a file that the peer sends, as it comes. A file that does not come whole does not stay.
func (s *session) save(name string, content io.Reader) error {
	path, err := s.path(name)
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(s.options.downloads)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := root.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	file, err := root.Create(path)
	if err != nil {
		return err
	}
	_, err = endpoint.Copy(file, content)
	if err = errors.Join(err, file.Close()); err != nil {
		root.Remove(path)
	}
	return err
}

// writeProtocol writes down the application protocol of the session; nothing where none was agreed on.
func (s *session) writeProtocol() error {
	protocol := s.SessionState().ApplicationProtocol
	return os.WriteFile(filepath.Join(s.options.downloads, protocolFile), []byte(protocol), 0o644)
}
