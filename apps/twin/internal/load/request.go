package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

const maxBody = 1 << 20

// Result is what became of one request. Reason is empty when it is OK.
type Result struct {
	OK      bool
	Reason  string
	Status  int
	Bytes   int
	Started time.Time
	Ended   time.Time
}

// Why a request failed, besides status_NNN.
const (
	reasonConnect = "connect"
	reasonTimeout = "timeout"
	reasonReset   = "reset"
	reasonBody    = "body"
	reasonOther   = "other"
)

// sender makes requests to one target that may change on the way, each over a connection of its own.
type sender struct {
	target atomic.Pointer[string]
	host   string
	spec   *Spec
	client *http.Client
}

func newSender(spec *Spec) *sender {
	made := &sender{host: spec.Host, spec: spec, client: &http.Client{
		Transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true, DialContext: (&net.Dialer{}).DialContext},
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		},
	}}
	made.target.Store(&spec.Target)
	return made
}

func (s *sender) send(ctx context.Context, operation *Operation, values map[string]string) Result {
	result := Result{Started: time.Now()}
	ctx, cancel := context.WithTimeout(ctx, seconds(s.spec.TimeoutS))
	defer cancel()
	result.Status, result.Bytes, result.Reason = s.exchange(ctx, operation, values)
	result.OK = result.Reason == ""
	result.Ended = time.Now()
	return result
}

func (s *sender) exchange(ctx context.Context, operation *Operation, values map[string]string) (status, size int, reason string) {
	request, err := s.request(ctx, operation, values)
	if err != nil {
		return 0, 0, reasonOther
	}
	response, err := s.client.Do(request)
	if err != nil {
		return 0, 0, classify(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxBody))
	switch {
	case err != nil:
		return response.StatusCode, len(body), classify(err)
	case !slices.Contains(operation.Expect.Status, response.StatusCode):
		return response.StatusCode, len(body), fmt.Sprintf("status_%d", response.StatusCode)
	case !operation.Expect.valid(body):
		return response.StatusCode, len(body), reasonBody
	default:
		return response.StatusCode, len(body), ""
	}
}

func (s *sender) request(ctx context.Context, operation *Operation, values map[string]string) (*http.Request, error) {
	query := url.Values{}
	for name, text := range operation.Query {
		query.Set(name, fill(text, values))
	}
	target := url.URL{Scheme: "http", Host: *s.target.Load(), Path: fill(operation.Path, values), RawQuery: query.Encode()}
	request, err := http.NewRequestWithContext(ctx, operation.Method, target.String(), strings.NewReader(fill(operation.Body, values)))
	if err != nil {
		return nil, err
	}
	for _, headers := range []map[string]string{s.spec.Headers, operation.Headers} {
		for name, text := range headers {
			request.Header.Set(name, fill(text, values))
		}
	}
	if s.host != "" {
		request.Host = s.host
	}
	return request, nil
}

func classify(err error) string {
	var dial *net.OpError
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return reasonTimeout
	case errors.As(err, &dial) && dial.Op == "dial":
		return reasonConnect
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return reasonReset
	default:
		return reasonOther
	}
}
