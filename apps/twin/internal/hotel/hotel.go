// Package hotel is the hotel reservation application: eight services that find each other in a Consul registry and
// talk gRPC. Each file is one service; this one is what they share.
package hotel

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc"
	"google.golang.org/grpc/resolver"

	"apps/internal/config"
	"apps/internal/registry"
	"apps/internal/rpc"
	"apps/internal/service"
	"apps/internal/store"
	"apps/internal/telemetry"
)

// Names under which the services are known in the registry.
const (
	srvGeo            = "srv-geo"
	srvProfile        = "srv-profile"
	srvRate           = "srv-rate"
	srvRecommendation = "srv-recommendation"
	srvReservation    = "srv-reservation"
	srvSearch         = "srv-search"
	srvUser           = "srv-user"
)

// admin is the database user of the two stores that ask for one.
var admin = &store.Login{User: "admin", Password: "admin"}

// Commands are the services by the command that starts them.
func Commands() map[string]service.Command {
	return map[string]service.Command{
		"frontend":       {Run: runFrontend},
		"search":         {Run: runSearch, MetricsPortVariable: "SEARCH_METRICS_PORT", MetricsPort: 9092},
		"geo":            {Run: runGeo},
		"rate":           {Run: runRate, MetricsPortVariable: "RATE_METRICS_PORT", MetricsPort: 9091},
		"profile":        {Run: runProfile},
		"recommendation": {Run: runRecommendation},
		"reservation":    {Run: runReservation},
		"user":           {Run: runUser},
	}
}

// dialDatabase connects to the database named by addressKey; a service without its database does not start.
func dialDatabase(ctx context.Context, process *service.Process, addressKey, name string, login *store.Login) *store.Mongo {
	address := process.Config[addressKey]
	process.Log.Info("connecting to database", "address", address, "database", name)
	database, err := store.DialMongo(ctx, address, name, login)
	if err != nil {
		telemetry.Panic(process.Log, "could not connect to database", err)
	}
	return database
}

func openCache(process *service.Process, addressKey string) *store.Cache {
	timeout := time.Duration(config.Int("MEMC_TIMEOUT", 2)) * time.Second
	cache, err := store.NewCache(process.Config[addressKey], timeout)
	if err != nil {
		telemetry.Panic(process.Log, "could not set up cache client", err)
	}
	return cache
}

// mesh is a service's place among its peers: tracing and the registry.
type mesh struct {
	process  *service.Process
	registry *registry.Client
	names    resolver.Builder
	instance string
}

// joinMesh sets up tracing, whose host name must resolve, and the registry client, which does not connect yet.
func joinMesh(ctx context.Context, process *service.Process) *mesh {
	instance := uuid.NewString()
	err := telemetry.StartTracing(ctx, process.Name, instance, process.Config["jaegerAddress"],
		config.Float("JAEGER_SAMPLE_RATIO", 0.01), process.Log)
	if err != nil {
		telemetry.Panic(process.Log, "could not initialize tracing", err)
	}
	client := registry.New(process.Config["consulAddress"])
	return &mesh{process: process, registry: client, names: registry.NewBuilder(client, process.Log), instance: instance}
}

// dial opens a connection to a peer, found in the registry or, where that is configured, by its Knative domain.
func (m *mesh) dial(name string) *grpc.ClientConn {
	target, names := registry.Scheme+":///"+name, m.names
	if domain := m.process.Config["KnativeDomainName"]; domain != "" {
		target, names = fmt.Sprintf("dns:///%s.%s:80", name, domain), nil
	}
	conn, err := rpc.Dial(target, name, names, m.process.Metrics, m.process.ClientTLS)
	if err != nil {
		telemetry.Panic(m.process.Log, "could not open connection", err)
	}
	return conn
}

// serve listens, announces the service as its last step, and answers calls. It always returns an error.
func (m *mesh) serve(ctx context.Context, portKey, name string, register func(*grpc.Server)) error {
	port := m.process.Config.Port(portKey)
	if port == 0 {
		return fmt.Errorf("server port must be set (%s)", portKey)
	}
	server := rpc.NewServer(m.process.Metrics, m.process.ServerTLS)
	register(server)
	listener, err := net.Listen("tcp", ":"+strconv.Itoa(port))
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	address, err := registry.LocalAddress(config.Text("DSB_GRPC_NETWORK", ""))
	if err != nil {
		return err
	}
	err = m.registry.Register(ctx, registry.Registration{ID: m.instance, Name: name, Address: address, Port: port})
	if err != nil {
		return err
	}
	m.process.Log.Info("registered in registry", "name", name, "address", address, "port", port)
	return fmt.Errorf("serve: %w", server.Serve(listener))
}

// seed fills a collection; a service that may not do so ends.
func seed[T any](ctx context.Context, database *store.Mongo, collection, key string, rows []T, keyOf func(T) string) error {
	if err := store.Seed(ctx, database, collection, key, rows, keyOf); err != nil {
		if store.Code(err) != 0 {
			return fmt.Errorf("not authorized to prepare the database: %w", err)
		}
		return fmt.Errorf("could not prepare the database: %w", err)
	}
	return nil
}
