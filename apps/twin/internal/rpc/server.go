// Package rpc is the gRPC floor that services stand on: servers and client connections with metrics, traces and
// keepalives, and calls with deadlines and retries.
package rpc

import (
	"context"
	"crypto/tls"
	"strings"
	"time"

	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"apps/internal/telemetry"
)

const (
	pingAfter = 10 * time.Second
	pingWait  = 5 * time.Second
)

// NewServer makes a server whose calls are counted and traced. A nil secure means plain text.
func NewServer(metrics *telemetry.Metrics, secure *tls.Config) *grpc.Server {
	server := grpc.NewServer(
		grpc.Creds(transport(secure)),
		grpc.StatsHandler(otelgrpc.NewServerHandler()),
		grpc.UnaryInterceptor(countServed(metrics)),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: pingAfter, Timeout: pingWait}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: pingAfter / 2, PermitWithoutStream: true}))
	grpc_health_v1.RegisterHealthServer(server, health.NewServer())
	return server
}

func countServed(metrics *telemetry.Metrics) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
		begin := time.Now()
		answer, err := handle(ctx, request)
		metrics.Served(operation(info.FullMethod), status.Code(err).String(), time.Since(begin))
		return answer, err
	}
}

// operation turns /search.Search/Nearby into search.Search/Nearby.
func operation(fullMethod string) string { return strings.TrimPrefix(fullMethod, "/") }

func transport(secure *tls.Config) credentials.TransportCredentials {
	if secure == nil {
		return insecure.NewCredentials()
	}
	return credentials.NewTLS(secure)
}
