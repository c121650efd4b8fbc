package endpoint

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"sync"
)

const chunkSize = 64 << 10

// Where a server keeps the files that it is sent.
const uploads = "/uploads"

// Fetch spreads the URLs over connections by the plan. What it is given gets files over one connection, and is told
// whether it may ask for them in early data.
func (o *Options) Fetch(fetch func(urls []*url.URL, earlyData bool) error) error {
	urls, err := parseURLs(o.urls)
	if err != nil {
		return err
	}
	// The session may come from a run before.
	earlyData := o.sessionDir != ""
	switch {
	case o.plan == planSingle && o.connections > 1:
		return atOnce(deal(urls, o.connections), func(part []*url.URL) error { return fetch(part, earlyData) })
	case o.plan == planSingle:
		return fetch(urls, earlyData)
	case o.plan == planEach:
		for index := range urls {
			if err := fetch(urls[index:index+1], earlyData); err != nil {
				return err
			}
		}
		return nil
	case !o.resumes():
		return fmt.Errorf("no such plan: %s", o.plan)
	case len(urls) < 2:
		return errors.New("this test needs two URLs")
	default:
		if err := fetch(urls[:1], earlyData); err != nil {
			return err
		}
		return fetch(urls[1:], earlyData || o.plan == planEarlyData)
	}
}

// SharesSocket says whether the client's connections may share a socket: several at once have one each, as a browser's.
func (o *Options) SharesSocket() bool {
	return o.connections < 2
}

// deal gives each of so many connections every so manieth URL.
func deal(urls []*url.URL, connections int) [][]*url.URL {
	parts := make([][]*url.URL, min(connections, len(urls)))
	for index, u := range urls {
		parts[index%len(parts)] = append(parts[index%len(parts)], u)
	}
	return parts
}

func (o *Options) resumes() bool {
	return o.plan == planResume || o.plan == planEarlyData && o.stack.EarlyData
}

func parseURLs(texts []string) ([]*url.URL, error) {
	var urls []*url.URL
	for _, text := range texts {
		u, err := url.Parse(text)
		if err != nil {
			return nil, err
		}
		if u.Scheme != "https" || u.Hostname() == "" || path.Base(u.Path) == "/" || path.Base(u.Path) == "." {
			return nil, fmt.Errorf("not a usable URL: %s", text)
		}
		urls = append(urls, u)
	}
	if len(urls) == 0 {
		return nil, errors.New("the client needs at least one URL")
	}
	return urls, nil
}

// Address is the host and port of a URL.
func Address(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = "443"
	}
	return net.JoinHostPort(u.Hostname(), port)
}

// Together gets all URLs at once, and says which of them failed.
func Together(urls []*url.URL, get func(*url.URL) error) error {
	return atOnce(urls, func(u *url.URL) error {
		if err := get(u); err != nil {
			return fmt.Errorf("%s: %w", u.Path, err)
		}
		return nil
	})
}

func atOnce[T any](items []T, do func(T) error) error {
	failures := make([]error, len(items))
	var running sync.WaitGroup
	for index, item := range items {
		running.Go(func() { failures[index] = do(item) })
	}
	running.Wait()
	return errors.Join(failures...)
}

// Save writes a body to the URL's file as it arrives, and returns its length.
func (o *Options) Save(u *url.URL, body io.Reader) (int64, error) {
	return save(filepath.Join(o.downloads, path.Base(u.Path)), body)
}

// Keep writes a body that a client sends to a file of the request's name as it arrives, and returns its length.
func Keep(requested string, body io.Reader) (int64, error) {
	return save(filepath.Join(uploads, path.Base(path.Clean("/"+requested))), body)
}

func save(name string, body io.Reader) (int64, error) {
	file, err := os.Create(name)
	if err != nil {
		return 0, err
	}
	length, err := Copy(file, body)
	return length, errors.Join(err, file.Close())
}

// Open opens the file that the client sends to a URL, and says how long it is.
func (o *Options) Open(u *url.URL) (*os.File, int64, error) {
	file, err := os.OpenInRoot(o.Root, path.Base(u.Path))
	if err != nil {
		return nil, 0, err
	}
	info, err := file.Stat()
	if err != nil {
		file.Close()
		return nil, 0, err
	}
	return file, info.Size(), nil
}

// Copy is what moves a file's bytes, in either direction.
func Copy(to io.Writer, from io.Reader) (int64, error) {
	// The wrappers keep io.CopyBuffer from using a path of its own around the buffer.
	return io.CopyBuffer(struct{ io.Writer }{to}, struct{ io.Reader }{from}, make([]byte, chunkSize))
}
