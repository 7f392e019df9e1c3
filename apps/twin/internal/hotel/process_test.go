package hotel

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"apps/internal/service"
)

// asService turns the test's own program into a service.
const asService = "RUN_AS_SERVICE"

func TestMain(m *testing.M) {
	if name := os.Getenv(asService); name != "" {
		os.Args = []string{name}
		service.Main(Commands())
	}
	os.Exit(m.Run())
}

// command is a service process with a configuration of its own.
func command(ctx context.Context, t *testing.T, name string, settings map[string]string, environment ...string) (*exec.Cmd, *bytes.Buffer) {
	t.Helper()
	raw, err := json.Marshal(settings)
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "config.json"), raw, 0o600); err != nil {
		t.Fatal(err)
	}
	run := exec.CommandContext(ctx, os.Args[0])
	run.Dir = folder
	var output bytes.Buffer
	run.Stdout, run.Stderr = &output, &output
	run.Env = append(os.Environ(), asService+"="+name, "OTEL_EXPORTER_PROMETHEUS_PORT=0", "SEARCH_METRICS_PORT=0", "RATE_METRICS_PORT=0")
	run.Env = append(run.Env, environment...)
	return run, &output
}

func TestHowServicesFailToStart(t *testing.T) {
	t.Parallel()
	nowhere := "127.0.0.1:" + closedPort(t)
	for _, c := range []struct {
		why, name   string
		settings    map[string]string
		environment []string
		status      int
		says        string
		slow        bool
	}{
		{why: "no database address", name: "geo", status: 2, says: "could not connect to database"},
		{why: "unreachable database", name: "rate", settings: map[string]string{"RateMongoAddress": nowhere}, status: 2, says: "no reachable servers", slow: true},
		{why: "tracing name does not resolve", name: "search", settings: map[string]string{"jaegerAddress": "jaeger.invalid:6831"}, status: 2, says: "jaeger.invalid"},
		{why: "tracing name does not resolve", name: "frontend", settings: map[string]string{"jaegerAddress": "jaeger.invalid:6831"}, status: 2, says: "jaeger.invalid"},
		{why: "no port", name: "search", settings: map[string]string{"jaegerAddress": "localhost:6831"}, status: 1, says: "SearchPort"},
		{why: "no port", name: "frontend", settings: map[string]string{"jaegerAddress": "localhost:6831"}, status: 1, says: "FrontendPort"},
		{
			why: "registry away", name: "search", status: 1, says: "register srv-search",
			settings: map[string]string{"jaegerAddress": "localhost:6831", "consulAddress": nowhere, "SearchPort": closedPort(t)},
		},
		{why: "certificates missing", name: "frontend", environment: []string{"TLS=1"}, status: 2, says: "x509/server_cert.pem"},
		{why: "no such service", name: "checkout", status: 2, says: "unknown service"},
	} {
		t.Run(c.name+": "+c.why, func(t *testing.T) {
			if c.slow && testing.Short() {
				t.Skip("takes ten seconds")
			}
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			begin := time.Now()
			run, output := command(ctx, t, c.name, c.settings, c.environment...)
			var exit *exec.ExitError
			if err := run.Run(); !errors.As(err, &exit) || exit.ExitCode() != c.status || !strings.Contains(output.String(), c.says) {
				t.Errorf("%v, wanted status %d and %q:\n%s", err, c.status, c.says, output)
			}
			if took := time.Since(begin); c.slow && (took < 9*time.Second || took > 15*time.Second) {
				t.Errorf("gave up after %v, not after about ten seconds", took)
			}
		})
	}
}

func TestFrontendStartsAloneAndAnswers(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	port := closedPort(t)
	run, output := command(ctx, t, "frontend", map[string]string{
		"jaegerAddress": "localhost:6831", "consulAddress": "127.0.0.1:" + closedPort(t), "FrontendPort": port,
	})
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cancel(); _ = run.Wait() })
	begin := time.Now()
	for {
		response, err := http.Get("http://127.0.0.1:" + port + hotelsPath) //nolint:noctx // a test
		if err == nil {
			response.Body.Close()
			if response.StatusCode != http.StatusInternalServerError {
				t.Errorf("status %d", response.StatusCode)
			}
			break
		}
		if time.Since(begin) > 5*time.Second {
			t.Fatalf("never answered: %v\n%s", err, output)
		}
		time.Sleep(5 * time.Millisecond)
	}
}
