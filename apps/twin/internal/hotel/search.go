package hotel

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"apps/internal/config"
	"apps/internal/hotel/pb/geo"
	"apps/internal/hotel/pb/rate"
	pb "apps/internal/hotel/pb/search"
	"apps/internal/rpc"
	"apps/internal/service"
)

type searchServer struct {
	pb.UnimplementedSearchServer
	process *service.Process
	geo     geo.GeoClient
	rate    rate.RateClient
	policy  rpc.RetryPolicy
	counts  searchCounts
}

type searchCounts struct {
	requests, attempts, timeouts, failures, successes prometheus.Counter
}

func runSearch(ctx context.Context, process *service.Process) error {
	peers := joinMesh(ctx, process)
	policy := ratePolicy()
	process.Log.Info("rate call policy", "timeout", policy.AttemptTimeout.String(), "attempts", policy.MaxAttempts,
		"backoff", policy.InitialBackoff.String(), "multiplier", policy.Multiplier, "jitter", policy.Jitter)
	server := newSearchServer(process, geo.NewGeoClient(peers.dial(srvGeo)), rate.NewRateClient(peers.dial(srvRate)), policy)
	return peers.serve(ctx, "SearchPort", srvSearch, func(registrar *grpc.Server) {
		pb.RegisterSearchServer(registrar, server)
	})
}

// ratePolicy is how often and how long rate is asked, from the environment.
func ratePolicy() rpc.RetryPolicy {
	return rpc.RetryPolicy{
		AttemptTimeout: time.Duration(config.Int("RATE_RPC_TIMEOUT_MS", 750)) * time.Millisecond,
		MaxAttempts:    config.Int("RATE_RPC_MAX_ATTEMPTS", 3),
		InitialBackoff: time.Duration(config.Int("RATE_RPC_INITIAL_BACKOFF_MS", 50)) * time.Millisecond,
		Multiplier:     config.Float("RATE_RPC_BACKOFF_MULTIPLIER", 2),
		Jitter:         config.Float("RATE_RPC_JITTER", 0.2),
	}
}

func newSearchServer(process *service.Process, geoClient geo.GeoClient, rateClient rate.RateClient, policy rpc.RetryPolicy) *searchServer {
	counter := func(name, help string) prometheus.Counter {
		return promauto.With(process.Metrics.Registry).NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	return &searchServer{process: process, geo: geoClient, rate: rateClient, policy: policy, counts: searchCounts{
		requests:  counter("search_requests_total", "Searches received."),
		attempts:  counter("search_rate_attempts_total", "Calls made to rate, retries included."),
		timeouts:  counter("search_rate_timeouts_total", "Calls to rate that ran into their deadline."),
		failures:  counter("search_rate_failures_total", "Searches for which rate gave no answer."),
		successes: counter("search_rate_successes_total", "Searches for which rate gave an answer."),
	}}
}

// Nearby implements the Search service.
func (s *searchServer) Nearby(ctx context.Context, request *pb.Request) (*pb.Result, error) {
	s.counts.requests.Inc()
	near, err := s.geo.Nearby(ctx, &geo.Request{Lat: request.GetLat(), Lon: request.GetLon()})
	if err != nil {
		s.process.Log.WarnContext(ctx, "geo did not answer", "error", err.Error())
		return nil, err
	}
	plans, err := s.rates(ctx, &rate.Request{HotelIds: near.GetHotelIds(), InDate: request.GetInDate(), OutDate: request.GetOutDate()})
	if err != nil {
		return nil, err
	}
	result := &pb.Result{}
	for _, plan := range plans.GetRatePlans() {
		result.HotelIds = append(result.HotelIds, plan.GetHotelId())
	}
	return result, nil
}

func (s *searchServer) rates(ctx context.Context, request *rate.Request) (*rate.Result, error) {
	var answer *rate.Result
	tries := 0
	err := s.policy.Do(ctx, func(ctx context.Context) error {
		s.counts.attempts.Inc()
		tries++
		result, err := s.rate.GetRates(ctx, request)
		answer = result
		return err
	}, func(err error) {
		if status.Code(err) == codes.DeadlineExceeded {
			s.counts.timeouts.Inc()
		}
	})
	if err == nil {
		s.counts.successes.Inc()
		return answer, nil
	}
	s.counts.failures.Inc()
	if errors.Is(ctx.Err(), context.Canceled) {
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	s.process.Log.WarnContext(ctx, "rate did not answer", "attempts", tries, "error", err.Error())
	if !rpc.Retryable(err) {
		return nil, err
	}
	return nil, status.Errorf(codes.Unavailable, "rate is unavailable after %d attempts: %v", tries, err)
}
