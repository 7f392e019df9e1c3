package relay

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func front(t *testing.T, listener Listener) *httptest.Server {
	t.Helper()
	handler, err := listener.Handler(slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server
}

func back(t *testing.T, handler http.HandlerFunc) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server
}

func get(t *testing.T, target string, header http.Header) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, target, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header = header
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(body)
}

func TestTokenReplacesWhatTheClientSends(t *testing.T) {
	upstream := back(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.Header.Get("Authorization"), "|", r.Header.Get("X-Relay-Listener"), "|", r.Header.Get("X-Forwarded-For"))
	})
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("first\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	server := front(t, Listener{Name: "kube", Upstream: upstream.URL, TokenFile: file})
	client := http.Header{"Authorization": {"Bearer mine"}, "X-Relay-Listener": {"other"}, "X-Forwarded-For": {"1.2.3.4"}}
	if _, body := get(t, server.URL, client); body != "Bearer first|kube|" {
		t.Errorf("upstream got %q", body)
	}
	if err := os.WriteFile(file, []byte("second"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, body := get(t, server.URL, client); body != "Bearer second|kube|" {
		t.Errorf("after the token was replaced upstream got %q", body)
	}
}

func TestPathReachesUpstreamAsWritten(t *testing.T) {
	upstream := back(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.RequestURI) })
	server := front(t, Listener{Name: "kube", Upstream: upstream.URL})
	for _, path := range []string{"/a%2Fb/%2e%2e/c?x=%20&y=1;2", "/api/v1/pods?watch=true&labelSelector=a%3Db", "//a//b"} {
		if _, body := get(t, server.URL+path, nil); body != path {
			t.Errorf("sent %q, upstream got %q", path, body)
		}
	}
}

func TestUnixUpstream(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "by socket") })) //nolint:gosec // a test
	}()
	t.Cleanup(func() { listener.Close() })
	server := front(t, Listener{Name: "submit", Upstream: "unix://" + socket})
	if code, body := get(t, server.URL, nil); code != 200 || body != "by socket" {
		t.Errorf("got %d %q", code, body)
	}
}

func TestStreamsAreFlushedAtOnce(t *testing.T) {
	release := make(chan struct{})
	upstream := back(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, "one")
		w.(http.Flusher).Flush()
		select {
		case <-release:
		case <-r.Context().Done():
		}
		fmt.Fprintln(w, "two")
	})
	server := front(t, Listener{Name: "kube", Upstream: upstream.URL})
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	if !lines.Scan() || lines.Text() != "one" {
		t.Fatalf("first line did not arrive while the stream was open: %q %v", lines.Text(), lines.Err())
	}
	close(release)
	if !lines.Scan() || lines.Text() != "two" {
		t.Fatalf("second line: %q %v", lines.Text(), lines.Err())
	}
}

func TestUpgradedConnectionsPass(t *testing.T) {
	for _, protocol := range []string{"SPDY/3.1", "websocket"} {
		upstream := back(t, func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Upgrade") != protocol || r.Header.Get("Authorization") != "Bearer t" {
				http.Error(w, "no upgrade", http.StatusBadRequest)
				return
			}
			conn, buffer, err := w.(http.Hijacker).Hijack()
			if err != nil {
				return
			}
			defer conn.Close()
			fmt.Fprintf(buffer, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n", protocol)
			buffer.Flush()
			line, _ := buffer.ReadString('\n')
			fmt.Fprint(buffer, strings.ToUpper(line))
			buffer.Flush()
		})
		server := front(t, Listener{Name: "kube", Upstream: upstream.URL, Token: "t"})
		conn, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
		fmt.Fprintf(conn, "POST /exec?command=sh HTTP/1.1\r\nHost: kube\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n", protocol)
		reader := bufio.NewReader(conn)
		response, err := http.ReadResponse(reader, nil)
		if err != nil || response.StatusCode != http.StatusSwitchingProtocols {
			t.Fatalf("%s: %v %v", protocol, response, err)
		}
		fmt.Fprint(conn, "hello\n")
		if line, err := reader.ReadString('\n'); line != "HELLO\n" {
			t.Errorf("%s: got %q, %v", protocol, line, err)
		}
	}
}

func TestUpstreamAwayAndBack(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	server := front(t, Listener{Name: "mcp", Upstream: "unix://" + socket})
	if code, body := get(t, server.URL, nil); code != http.StatusBadGateway || !strings.Contains(body, "unavailable") {
		t.Errorf("got %d %q", code, body)
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() { _ = http.Serve(listener, http.NotFoundHandler()) }() //nolint:gosec // a test
	if code, _ := get(t, server.URL, nil); code != http.StatusNotFound {
		t.Errorf("after upstream came back: %d", code)
	}
}

func TestConfigurationsThatAreRefused(t *testing.T) {
	for _, raw := range []string{
		``, `{"listeners":[]}`, `{"listeners":[{"listen":":1","upstream":"http://example.com:80"}]}`,
		`{"listeners":[{"listen":":1","upstream":"https://10.0.0.1:443"}]}`, `{"listeners":[{"listen":":1","upstrem":"x"}]}`,
		`{"listeners":[{"listen":":1","upstream":"http://10.0.0.1"}]}`,
	} {
		if _, err := ParseConfig([]byte(raw)); err == nil {
			t.Errorf("accepted %s", raw)
		}
	}
}

func TestServeReportsWhenAllPortsAreOpen(t *testing.T) {
	upstream := back(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") })
	config := Config{Listeners: []Listener{
		{Name: "a", Listen: "127.0.0.1:0", Upstream: upstream.URL}, {Name: "b", Listen: "127.0.0.1:0", Upstream: upstream.URL},
	}}
	ctx, cancel := context.WithCancel(t.Context())
	reader, writer := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, config, writer, slog.New(slog.DiscardHandler)) }()
	line, err := bufio.NewReader(reader).ReadString('\n')
	if err != nil || !strings.Contains(line, `"ready"`) {
		t.Fatalf("%q %v", line, err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("ended with %v", err)
	}
}
