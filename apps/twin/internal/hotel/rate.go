package hotel

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"go.mongodb.org/mongo-driver/v2/bson"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"apps/internal/admission"
	"apps/internal/config"
	pb "apps/internal/hotel/pb/rate"
	"apps/internal/service"
	"apps/internal/store"
	"apps/internal/telemetry"
)

type rateServer struct {
	pb.UnimplementedRateServer
	process   *service.Process
	queue     *admission.Queue
	plans     func(ctx context.Context, hotelIDs []string) []planRow
	inFlight  atomic.Int64
	completed atomic.Int64
}

func runRate(ctx context.Context, process *service.Process) error {
	database := dialDatabase(ctx, process, "RateMongoAddress", "rate-db", admin)
	if err := seed(ctx, database, "inventory", "hotelId", seedPlans(), func(r planRow) string { return r.HotelID }); err != nil {
		return err
	}
	plans := &planStore{process: process, database: database, cache: openCache(process, "RateMemcAddress")}
	queue := admission.New(config.Int("RATE_BACKEND_QPS_LIMIT", 20), config.Int("RATE_QUEUE_CAPACITY", 256))
	process.Log.Info("admission", "qps_limit", queue.Rate(), "queue_capacity", queue.Capacity())
	server := newRateServer(process, queue, plans.read)
	return joinMesh(ctx, process).serve(ctx, "RatePort", srvRate, func(registrar *grpc.Server) {
		pb.RegisterRateServer(registrar, server)
	})
}

func newRateServer(process *service.Process, queue *admission.Queue, plans func(context.Context, []string) []planRow) *rateServer {
	server := &rateServer{process: process, queue: queue, plans: plans}
	metrics := promauto.With(process.Metrics.Registry)
	gauge := func(name, help string, read func() float64) {
		metrics.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, read)
	}
	counter := func(name, help string, read func() int64) {
		metrics.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, func() float64 { return float64(read()) })
	}
	gauge("rate_backend_qps_limit", "Requests let through per second.", func() float64 { return float64(queue.Rate()) })
	gauge("rate_queue_capacity", "Requests that may wait.", func() float64 { return float64(queue.Capacity()) })
	gauge("rate_queue_depth", "Requests that wait.", func() float64 { return float64(queue.Depth()) })
	gauge("rate_in_flight", "Requests being worked on.", func() float64 { return float64(server.inFlight.Load()) })
	counter("rate_requests_received_total", "Requests received.", queue.Received)
	counter("rate_requests_completed_total", "Requests answered.", server.completed.Load)
	counter("rate_requests_expired_total", "Requests let through after their caller had given up.", queue.Expired)
	counter("rate_requests_rejected_total", "Requests refused because the queue was full.", queue.Rejected)
	return server
}

// GetRates implements the Rate service.
func (s *rateServer) GetRates(ctx context.Context, request *pb.Request) (*pb.Result, error) {
	if err := s.queue.Acquire(ctx); err != nil {
		if errors.Is(err, admission.ErrFull) {
			return nil, status.Error(codes.ResourceExhausted, err.Error())
		}
		return nil, status.FromContextError(err).Err()
	}
	s.inFlight.Add(1)
	defer s.inFlight.Add(-1)
	plans := s.plans(ctx, request.GetHotelIds())
	slices.SortStableFunc(plans, func(a, b planRow) int { return cmp.Compare(b.RoomType.TotalRate, a.RoomType.TotalRate) })
	result := &pb.Result{}
	for _, plan := range plans {
		result.RatePlans = append(result.RatePlans, plan.message())
	}
	s.completed.Add(1)
	return result, nil
}

func (r planRow) message() *pb.RatePlan {
	return &pb.RatePlan{HotelId: r.HotelID, Code: r.Code, InDate: r.InDate, OutDate: r.OutDate, RoomType: &pb.RoomType{
		BookableRate: r.RoomType.BookableRate, TotalRate: r.RoomType.TotalRate,
		TotalRateInclusive: r.RoomType.TotalRateInclusive, Code: r.RoomType.Code, RoomDescription: r.RoomType.Description,
	}}
}

// planStore reads plans through the cache. It panics, and so ends the process, when either store fails.
type planStore struct {
	process  *service.Process
	database *store.Mongo
	cache    *store.Cache
}

func (p *planStore) read(ctx context.Context, hotelIDs []string) []planRow {
	cached, err := p.cache.GetMulti(hotelIDs)
	if err != nil {
		telemetry.Panic(p.process.Log, "rate cache failed", err)
	}
	perHotel := make([][]planRow, len(hotelIDs))
	var misses sync.WaitGroup
	for i, id := range hotelIDs {
		if value, hit := cached[id]; hit {
			perHotel[i] = decodeCached[[]planRow](p.process, id, value)
			continue
		}
		misses.Go(func() { perHotel[i] = p.load(ctx, id) })
	}
	misses.Wait()
	return slices.Concat(perHotel...)
}

// load asks the database and writes the answer, an empty one too, to the cache behind the caller's back. The query
// outlives a caller that gives up.
func (p *planStore) load(ctx context.Context, id string) []planRow {
	ctx = context.WithoutCancel(ctx)
	plans, err := store.Find[planRow](ctx, p.database, "inventory", bson.D{{Key: "hotelId", Value: id}})
	if err != nil {
		telemetry.Panic(p.process.Log, "rate database failed", err)
	}
	go writeBack(ctx, p.process, p.cache, id, plans)
	return plans
}

func writeBack(ctx context.Context, process *service.Process, cache *store.Cache, key string, value any) {
	encoded, err := json.Marshal(value)
	if err == nil {
		err = cache.Set(key, encoded)
	}
	if err != nil {
		process.Log.WarnContext(ctx, "cache not written", "key", key, "error", err.Error())
	}
}

func decodeCached[T any](process *service.Process, key string, value []byte) T {
	var decoded T
	if err := json.Unmarshal(value, &decoded); err != nil {
		process.Log.Warn("cache holds an unreadable value", "key", key, "error", err.Error())
	}
	return decoded
}
