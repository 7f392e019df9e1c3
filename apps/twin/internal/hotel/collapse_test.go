package hotel

import (
	"context"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"

	"apps/internal/admission"
	"apps/internal/hotel/pb/geo"
	"apps/internal/hotel/pb/rate"
	pb "apps/internal/hotel/pb/search"
	"apps/internal/rpc"
	"apps/internal/service"
	"apps/internal/telemetry"
)

// Times are a fifth of those in production; counts (queue length, attempts) are the same.
const (
	faster  = 5
	steady  = 8 * faster
	burst   = 40 * faster
	settled = 0.9
)

func longRunning(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("takes seconds")
	}
	t.Parallel()
}

type fixedGeo struct{ geo.UnimplementedGeoServer }

func (fixedGeo) Nearby(context.Context, *geo.Request) (*geo.Result, error) {
	return &geo.Result{HotelIds: []string{"1", "2", "3"}}, nil
}

type setting struct {
	qps, capacity, attempts int
	timeout                 time.Duration
}

// tipsOver is the setting that a burst can tip; repaired is one that recovers.
var (
	tipsOver = setting{qps: 20 * faster, capacity: 256, attempts: 3, timeout: 750 * time.Millisecond / faster}
	repaired = setting{qps: 50 * faster, capacity: 256, attempts: 2, timeout: time.Second / faster}
)

// searchAndRate are the two services on loopback ports, with a fixed geo and plans from memory.
type searchAndRate struct {
	search *searchServer
	rate   *rateServer
}

func process(t *testing.T, name string) *service.Process {
	t.Helper()
	return &service.Process{Name: name, Log: telemetry.NewLogger(io.Discard, name, "error"), Metrics: telemetry.NewMetrics(name)}
}

// serveLoopback serves and gives a connection to it.
func serveLoopback(t *testing.T, register func(*grpc.Server)) *grpc.ClientConn {
	t.Helper()
	server := rpc.NewServer(telemetry.NewMetrics("peer"), nil)
	register(server)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go server.Serve(listener) //nolint:errcheck // ends with the test
	t.Cleanup(server.Stop)
	conn, err := rpc.Dial("passthrough:///"+listener.Addr().String(), "peer", nil, telemetry.NewMetrics("client"), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func start(t *testing.T, with setting) *searchAndRate {
	t.Helper()
	plans := func(_ context.Context, ids []string) []planRow {
		rows := make([]planRow, len(ids))
		for i, id := range ids {
			rows[i] = planRow{HotelID: id}
		}
		return rows
	}
	rateSide := newRateServer(process(t, "rate"), admission.New(with.qps, with.capacity), plans)
	rateConn := serveLoopback(t, func(s *grpc.Server) { rate.RegisterRateServer(s, rateSide) })
	geoConn := serveLoopback(t, func(s *grpc.Server) { geo.RegisterGeoServer(s, fixedGeo{}) })
	policy := rpc.RetryPolicy{
		AttemptTimeout: with.timeout, MaxAttempts: with.attempts, InitialBackoff: 50 * time.Millisecond / faster, Multiplier: 2, Jitter: .2,
	}
	searchSide := newSearchServer(process(t, "search"), geo.NewGeoClient(geoConn), rate.NewRateClient(rateConn), policy)
	return &searchAndRate{search: searchSide, rate: rateSide}
}

// drive sends searches at a fixed rate, whatever comes back, and gives the share that succeeded.
func (s *searchAndRate) drive(ctx context.Context, perSecond int, length time.Duration) float64 {
	var sent, succeeded atomic.Int64
	var running sync.WaitGroup
	begin := time.Now()
	for n := 0; ; n++ {
		due := begin.Add(time.Duration(n) * time.Second / time.Duration(perSecond))
		if due.Sub(begin) >= length {
			break
		}
		time.Sleep(time.Until(due))
		running.Go(func() {
			sent.Add(1)
			if result, err := s.search.Nearby(ctx, &pb.Request{}); err == nil && len(result.GetHotelIds()) == 3 {
				succeeded.Add(1)
			}
		})
	}
	running.Wait()
	return float64(succeeded.Load()) / float64(sent.Load())
}

func TestBurstTipsOverAndItStaysTipped(t *testing.T) {
	longRunning(t)
	services := start(t, tipsOver)
	if share := services.drive(t.Context(), steady, 2*time.Second); share < settled {
		t.Fatalf("before the burst only %.0f %% succeed", share*100)
	}
	if depth := services.rate.queue.Depth(); depth > 5 {
		t.Fatalf("before the burst %d wait", depth)
	}
	services.drive(t.Context(), burst, 10*time.Second/faster)
	services.drive(t.Context(), steady, 2*time.Second)
	before := services.rate.queue.Received()
	depth := services.rate.queue.Depth()
	share := services.drive(t.Context(), steady, 4*time.Second)
	attempts := float64(services.rate.queue.Received()-before) / float64(4*steady)
	t.Logf("after the burst: %.0f %% succeed, %.2f attempts a request, queue %d -> %d, expired %d",
		share*100, attempts, depth, services.rate.queue.Depth(), services.rate.queue.Expired())
	if share > .5 || attempts < 2 || services.rate.queue.Depth() < 20 {
		t.Errorf("it came back by itself")
	}
	if services.rate.queue.Expired() == 0 {
		t.Errorf("no token was spent on a caller that had given up")
	}
}

func TestRightSettingsRecover(t *testing.T) {
	longRunning(t)
	services := start(t, repaired)
	services.drive(t.Context(), burst, 10*time.Second/faster)
	services.drive(t.Context(), steady, 2*time.Second)
	share := services.drive(t.Context(), steady, 2*time.Second)
	t.Logf("after the burst: %.0f %% succeed, queue %d", share*100, services.rate.queue.Depth())
	if share < settled || services.rate.queue.Depth() > 5 {
		t.Errorf("it did not recover")
	}
}

func TestShortQueueWithoutRetryRecovers(t *testing.T) {
	longRunning(t)
	// At 20 requests/s a queue of 10 means at most half a second of waiting, below the deadline.
	services := start(t, setting{qps: 20 * faster, capacity: 10, attempts: 1, timeout: 750 * time.Millisecond / faster})
	services.drive(t.Context(), burst, 10*time.Second/faster)
	services.drive(t.Context(), steady, time.Second)
	if share := services.drive(t.Context(), steady, 2*time.Second); share < settled {
		t.Errorf("it did not recover: %.0f %% succeed", share*100)
	}
}
