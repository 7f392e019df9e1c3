// Package relay is the small gateway program between an agent's network and the coordinator: it forwards a few ports,
// each to one upstream, and adds the token that the agent does not have. It resolves no names and forwards nothing else.
package relay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"time"
)

// Config is all that the relay is told.
type Config struct {
	Listeners []Listener `json:"listeners"`
}

// Listener is one port. Upstream is http://IP:port or unix:///path. The token is read from TokenFile at every request, so
// that it can be replaced, unless Token gives it. Raw: bytes are carried as they are, without a token.
type Listener struct {
	Name      string `json:"name"`
	Listen    string `json:"listen"`
	Upstream  string `json:"upstream"`
	Token     string `json:"token"`
	TokenFile string `json:"token_file"`
	Raw       bool   `json:"raw"`
}

// ParseConfig reads a configuration and refuses one that the relay could not serve.
func ParseConfig(raw []byte) (Config, error) {
	var config Config
	decoder := json.NewDecoder(strings.NewReader(string(raw)))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&config); err != nil {
		return config, fmt.Errorf("relay configuration: %w", err)
	}
	if len(config.Listeners) == 0 {
		return config, errors.New("relay configuration: no listeners")
	}
	for _, listener := range config.Listeners {
		if _, err := listener.upstream(); err != nil {
			return config, fmt.Errorf("relay configuration: listener %q: %w", listener.Name, err)
		}
	}
	return config, nil
}

// upstream is where a listener's requests go.
type upstream struct{ network, address string }

func (l Listener) upstream() (upstream, error) {
	target, err := url.Parse(l.Upstream)
	if err != nil {
		return upstream{}, fmt.Errorf("upstream: %w", err)
	}
	switch {
	case target.Scheme == "unix" && target.Path != "":
		return upstream{"unix", target.Path}, nil
	case target.Scheme == "http":
		if _, err := netip.ParseAddrPort(target.Host); err != nil {
			return upstream{}, fmt.Errorf("upstream must be an address and a port: %w", err)
		}
		return upstream{"tcp", target.Host}, nil
	default:
		return upstream{}, fmt.Errorf("upstream %q is neither http://IP:port nor unix:///path", l.Upstream)
	}
}

// Handler forwards requests of one listener.
func (l Listener) Handler(log *slog.Logger) (http.Handler, error) {
	to, err := l.upstream()
	if err != nil {
		return nil, err
	}
	dialer := &net.Dialer{Timeout: 5 * time.Second}
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host = "http", "upstream"
			r.Out.Host = r.In.Host
			// A path such as /a%2Fb must reach the other side as it was written, to be judged there.
			r.Out.URL.RawPath, r.Out.URL.RawQuery = r.In.URL.RawPath, r.In.URL.RawQuery
			r.Out.Header.Del("Authorization")
			if token, err := l.token(); err != nil {
				log.Error("token not readable", "listener", l.Name, "error", err.Error())
			} else if token != "" {
				r.Out.Header.Set("Authorization", "Bearer "+token)
			}
			r.Out.Header.Set("X-Relay-Listener", l.Name)
		},
		Transport: &http.Transport{
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return dialer.DialContext(ctx, to.network, to.address)
			},
			DisableCompression: true, MaxIdleConnsPerHost: 32, IdleConnTimeout: 30 * time.Second,
		},
		FlushInterval: -1,
		ErrorLog:      slog.NewLogLogger(log.Handler(), slog.LevelWarn),
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			log.Warn("upstream is unavailable", "listener", l.Name, "path", r.URL.Path, "error", err.Error())
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadGateway)
			_, _ = w.Write([]byte(`{"error":"upstream is unavailable"}` + "\n"))
		},
	}, nil
}

func (l Listener) token() (string, error) {
	if l.TokenFile == "" {
		return l.Token, nil
	}
	raw, err := os.ReadFile(l.TokenFile)
	return strings.TrimSpace(string(raw)), err
}
