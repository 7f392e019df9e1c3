package relay

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"time"
)

// serveRaw carries the bytes of every connection to the upstream and back, whatever they are. Returns when the port is closed.
func (l Listener) serveRaw(ctx context.Context, port net.Listener, log *slog.Logger) error {
	to, err := l.upstream()
	if err != nil {
		return err
	}
	dialer := &net.Dialer{Timeout: 5 * time.Second}
	for {
		client, err := port.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		go func() {
			defer client.Close()
			far, err := dialer.DialContext(ctx, to.network, to.address)
			if err != nil {
				log.Warn("upstream is unavailable", "listener", l.Name, "error", err.Error())
				return
			}
			defer far.Close()
			ended := make(chan struct{}, 2)
			go pour(far, client, ended)
			go pour(client, far, ended)
			<-ended
			<-ended
		}()
	}
}

// pour copies until the source ends, and passes that end on.
func pour(to, from net.Conn, ended chan<- struct{}) {
	_, err := io.Copy(to, from)
	if half, ok := to.(interface{ CloseWrite() error }); ok && err == nil {
		_ = half.CloseWrite()
	} else {
		to.Close()
		from.Close()
	}
	ended <- struct{}{}
}
