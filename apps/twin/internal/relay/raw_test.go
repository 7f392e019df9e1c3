package relay

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"testing"
	"time"
)

func TestRawConnectionsAreCarriedBothWaysToTheirEnds(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	upstream, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { upstream.Close() })
	go func() {
		for {
			conn, err := upstream.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				said, _ := io.ReadAll(conn)
				fmt.Fprintf(conn, "got %q", said)
			}()
		}
	}()
	config := Config{Listeners: []Listener{{Name: "i", Listen: "127.0.0.1:0", Upstream: "unix://" + socket, Raw: true}}}
	ctx, cancel := context.WithCancel(t.Context())
	reader, writer := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, config, writer, slog.New(slog.DiscardHandler)) }()
	line, err := bufio.NewReader(reader).ReadBytes('\n')
	if err != nil {
		t.Fatal(err)
	}
	var ready struct{ Listeners []string }
	if err := json.Unmarshal(line, &ready); err != nil {
		t.Fatal(err)
	}
	client, err := net.Dial("tcp", ready.Listeners[0])
	if err != nil {
		t.Fatal(err)
	}
	_ = client.SetDeadline(time.Now().Add(5 * time.Second))
	fmt.Fprint(client, "CONNECT a:1 HTTP/1.1\r\n\r\n\x00\xff")
	if err := client.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(client)
	if want := `got "CONNECT a:1 HTTP/1.1\r\n\r\n\x00\xff"`; err != nil || string(answer) != want {
		t.Errorf("got %q, %v", answer, err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("ended with %v", err)
	}
}

func TestARawListenerWithoutItsUpstreamHangsUp(t *testing.T) {
	listener := Listener{Name: "i", Upstream: "unix://" + filepath.Join(t.TempDir(), "missing"), Raw: true}
	port, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { port.Close() })
	go func() { _ = listener.serveRaw(t.Context(), port, slog.New(slog.DiscardHandler)) }()
	client, err := net.Dial("tcp", port.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	_ = client.SetDeadline(time.Now().Add(5 * time.Second))
	if read, err := io.ReadAll(client); err != nil || len(read) != 0 {
		t.Errorf("got %q, %v", read, err)
	}
}
