package rpc

import (
	"context"
	"crypto/tls"
	"fmt"
	"time"

	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/status"

	"apps/internal/telemetry"
)

const balancing = `{"loadBalancingConfig":[{"round_robin":{}}]}`

// Dial opens a client connection to target without waiting for it. peer names the other side in metrics. names may
// be nil for targets of gRPC's own schemes; a nil secure means plain text.
func Dial(target, peer string, names resolver.Builder, metrics *telemetry.Metrics, secure *tls.Config) (*grpc.ClientConn, error) {
	retry := backoff.DefaultConfig
	retry.BaseDelay, retry.MaxDelay = 100*time.Millisecond, 3*time.Second
	options := []grpc.DialOption{
		grpc.WithTransportCredentials(transport(secure)),
		grpc.WithDefaultServiceConfig(balancing),
		grpc.WithStatsHandler(otelgrpc.NewClientHandler()),
		grpc.WithUnaryInterceptor(countCalled(metrics, peer)),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: retry, MinConnectTimeout: 5 * time.Second}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: pingAfter, Timeout: pingWait, PermitWithoutStream: true}),
		grpc.WithIdleTimeout(0),
		grpc.WithNoProxy(),
	}
	if names != nil {
		options = append(options, grpc.WithResolvers(names))
	}
	conn, err := grpc.NewClient(target, options...)
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", target, err)
	}
	conn.Connect()
	return conn, nil
}

func countCalled(metrics *telemetry.Metrics, peer string) grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
		err := invoke(ctx, method, request, reply, conn, options...)
		metrics.Called(peer, operation(method), status.Code(err).String())
		return err
	}
}
