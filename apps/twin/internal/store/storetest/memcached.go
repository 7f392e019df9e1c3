// Package storetest plays datastores inside a test.
package storetest

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// Memcached is a cache server on a loopback port that knows get and set.
type Memcached struct {
	Address string

	mu       sync.Mutex
	values   map[string]string
	listener net.Listener
	conns    []net.Conn
}

// NewMemcached starts one; it ends with the test.
func NewMemcached(t *testing.T) *Memcached {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	made := &Memcached{Address: listener.Addr().String(), values: map[string]string{}, listener: listener}
	go made.accept()
	t.Cleanup(made.Stop)
	return made
}

// Stop closes the port and all connections.
func (m *Memcached) Stop() {
	m.listener.Close()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, conn := range m.conns {
		conn.Close()
	}
}

// Put stores a value.
func (m *Memcached) Put(key, value string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.values[key] = value
}

// Get reads a value, "" when there is none.
func (m *Memcached) Get(key string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.values[key]
}

func (m *Memcached) accept() {
	for {
		conn, err := m.listener.Accept()
		if err != nil {
			return
		}
		m.mu.Lock()
		m.conns = append(m.conns, conn)
		m.mu.Unlock()
		go m.serve(conn)
	}
}

func (m *Memcached) serve(conn net.Conn) {
	defer conn.Close()
	reader := bufio.NewReader(conn)
	for {
		line, err := reader.ReadString('\n')
		if err != nil {
			return
		}
		words := strings.Fields(line)
		switch {
		case len(words) > 1 && (words[0] == "get" || words[0] == "gets"):
			for _, key := range words[1:] {
				m.mu.Lock()
				value, found := m.values[key]
				m.mu.Unlock()
				if found {
					fmt.Fprintf(conn, "VALUE %s 0 %d 1\r\n%s\r\n", key, len(value), value)
				}
			}
			fmt.Fprint(conn, "END\r\n")
		case len(words) == 5 && words[0] == "set":
			size, err := strconv.Atoi(words[4])
			value := make([]byte, size+2)
			if err == nil {
				_, err = io.ReadFull(reader, value)
			}
			if err != nil {
				return
			}
			m.Put(words[1], string(value[:size]))
			fmt.Fprint(conn, "STORED\r\n")
		default:
			fmt.Fprint(conn, "ERROR\r\n")
		}
	}
}
