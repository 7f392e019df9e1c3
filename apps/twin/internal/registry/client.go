// Package registry speaks Consul's HTTP API as a service of the mesh does: it announces itself once, and follows
// the addresses of its peers by long polls.
package registry

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

const (
	registerTimeout = 10 * time.Second
	pollWait        = 5 * time.Minute
)

// Client talks to one agent at host:port.
type Client struct {
	address string
	http    *http.Client
}

// Registration is what a service announces of itself.
type Registration struct {
	ID      string `json:"ID"`
	Name    string `json:"Name"`
	Address string `json:"Address"`
	Port    int    `json:"Port"`
}

// Instances is one answer of the registry about a service name.
type Instances struct {
	Addresses []string // host:port, without duplicates
	Index     uint64   // state to wait beyond with the next poll
}

// New makes a client; it does not connect.
func New(address string) *Client {
	return &Client{address: address, http: &http.Client{Transport: &http.Transport{
		DialContext:         (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 10 * time.Second}).DialContext,
		MaxIdleConnsPerHost: 8,
	}}}
}

// Register announces a service. There is no health check and no later renewal.
func (c *Client) Register(ctx context.Context, registration Registration) error {
	body, err := json.Marshal(registration)
	if err != nil {
		return fmt.Errorf("encode registration: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, registerTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPut, c.url("/v1/agent/service/register", nil), bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("register %s: %w", registration.Name, err)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return fmt.Errorf("register %s: %w", registration.Name, err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(response.Body, 200))
		return fmt.Errorf("register %s: unexpected response code %d (%s)", registration.Name, response.StatusCode, text)
	}
	return nil
}

// Watch waits until the instances of name differ from those at index (0: answers at once).
func (c *Client) Watch(ctx context.Context, name string, index uint64) (Instances, error) {
	query := url.Values{"passing": {"1"}, "index": {strconv.FormatUint(index, 10)}, "wait": {pollWait.String()}}
	ctx, cancel := context.WithTimeout(ctx, pollWait+30*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url("/v1/health/service/"+url.PathEscape(name), query), nil)
	if err != nil {
		return Instances{}, fmt.Errorf("watch %s: %w", name, err)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return Instances{}, fmt.Errorf("watch %s: %w", name, err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return Instances{}, fmt.Errorf("watch %s: unexpected response code %d", name, response.StatusCode)
	}
	return decode(response)
}

func (c *Client) url(path string, query url.Values) string {
	target := url.URL{Scheme: "http", Host: c.address, Path: path, RawQuery: query.Encode()}
	return target.String()
}

func decode(response *http.Response) (Instances, error) {
	var entries []struct {
		Node    struct{ Address string }
		Service struct {
			Address string
			Port    int
		}
	}
	if err := json.NewDecoder(response.Body).Decode(&entries); err != nil {
		return Instances{}, fmt.Errorf("decode instances: %w", err)
	}
	index, err := strconv.ParseUint(response.Header.Get("X-Consul-Index"), 10, 64)
	if err != nil {
		return Instances{}, fmt.Errorf("decode index: %w", err)
	}
	instances := Instances{Index: index}
	seen := map[string]bool{}
	for _, entry := range entries {
		host := entry.Service.Address
		if host == "" {
			host = entry.Node.Address
		}
		address := net.JoinHostPort(host, strconv.Itoa(entry.Service.Port))
		if !seen[address] {
			seen[address] = true
			instances.Addresses = append(instances.Addresses, address)
		}
	}
	return instances, nil
}
