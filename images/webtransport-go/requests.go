package main

import (
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"quic-lab/endpoint"
)

// target is a session that is to be opened, and what is to be asked for on it.
type target struct {
	endpoint string
	files    []string
}

// targets are in the order in which the requests name them.
type targets []*target

// add takes ENDPOINT/FILE, or an endpoint alone.
func (t *targets) add(request string) error {
	name, file, _ := strings.Cut(strings.Trim(request, "/"), "/")
	if !isEndpoint(name) {
		return fmt.Errorf("not a usable request: %s", request)
	}
	index := slices.IndexFunc(*t, func(known *target) bool { return known.endpoint == name })
	if index < 0 {
		index = len(*t)
		*t = append(*t, &target{endpoint: name})
	}
	known := (*t)[index]
	if file != "" && !slices.Contains(known.files, file) {
		known.files = append(known.files, file)
	}
	return nil
}

// isEndpoint says whether a name can be that of a folder of files.
func isEndpoint(name string) bool {
	return filepath.IsLocal(name) && filepath.Base(name) == name && name != "."
}

// parseURLs returns what a client is told to ask for, and the one URL of the server.
func parseURLs(texts []string) (targets, *url.URL, error) {
	var sessions targets
	var server *url.URL
	for _, text := range texts {
		u, err := url.Parse(text)
		if err != nil {
			return nil, nil, err
		}
		if u.Scheme != "https" || u.Hostname() == "" {
			return nil, nil, fmt.Errorf("not a usable URL: %s", text)
		}
		if server == nil {
			server = &url.URL{Scheme: u.Scheme, Host: u.Host}
		}
		if endpoint.Address(u) != endpoint.Address(server) {
			return nil, nil, fmt.Errorf("not a URL of %s: %s", server.Host, text)
		}
		if err := sessions.add(u.Path); err != nil {
			return nil, nil, err
		}
	}
	if server == nil {
		return nil, nil, errors.New("the client needs at least one URL")
	}
	return sessions, server, nil
}

// parsePaths returns what a server is told to ask for.
func parsePaths(texts []string) (targets, error) {
	var sessions targets
	for _, text := range texts {
		if err := sessions.add(text); err != nil {
			return nil, err
		}
	}
	return sessions, nil
}

// files are those to be asked for on a session.
func (t targets) files(endpoint string) []string {
	for _, known := range t {
		if known.endpoint == endpoint {
			return known.files
		}
	}
	return nil
}
