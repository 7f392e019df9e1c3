package registry

import (
	"context"
	"log/slog"
	"time"

	"google.golang.org/grpc/resolver"
)

// Scheme is the URL scheme of gRPC targets that are looked up here: consul:///srv-name.
const Scheme = "consul"

// The real client has no pause between failed polls and burns a core. This one keeps the noise, not the burn.
const retryPause = 100 * time.Millisecond

// Builder makes gRPC name resolvers over one client.
type Builder struct {
	client *Client
	log    *slog.Logger
}

// NewBuilder gives a resolver builder for grpc.WithResolvers.
func NewBuilder(client *Client, log *slog.Logger) *Builder {
	return &Builder{client: client, log: log}
}

// Scheme implements resolver.Builder.
func (b *Builder) Scheme() string { return Scheme }

// Build implements resolver.Builder: it starts to follow the name in target.
func (b *Builder) Build(target resolver.Target, conn resolver.ClientConn, _ resolver.BuildOptions) (resolver.Resolver, error) {
	ctx, cancel := context.WithCancel(context.Background())
	name := target.Endpoint()
	go b.follow(ctx, name, conn)
	return &watch{cancel: cancel}, nil
}

func (b *Builder) follow(ctx context.Context, name string, conn resolver.ClientConn) {
	var index uint64
	for ctx.Err() == nil {
		instances, err := b.client.Watch(ctx, name, index)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			b.log.Warn("could not fetch endpoints from registry", "target", name, "error", err.Error())
			conn.ReportError(err)
			index = 0
			select {
			case <-ctx.Done():
			case <-time.After(retryPause):
			}
			continue
		}
		index = instances.Index
		b.log.Debug("endpoints changed", "target", name, "addresses", instances.Addresses)
		b.publish(conn, instances)
	}
}

// publish hands over the list, the empty one included: a name that the registry does not know must fail calls now.
func (b *Builder) publish(conn resolver.ClientConn, instances Instances) {
	state := resolver.State{}
	for _, address := range instances.Addresses {
		endpoint := resolver.Endpoint{Addresses: []resolver.Address{{Addr: address}}}
		state.Endpoints = append(state.Endpoints, endpoint)
		state.Addresses = append(state.Addresses, endpoint.Addresses...)
	}
	// The balancer answers "bad state" to an empty list and would ask for a new resolution; the poll does that anyway.
	if err := conn.UpdateState(state); err != nil {
		b.log.Debug("endpoints not accepted", "error", err.Error())
	}
}

type watch struct{ cancel context.CancelFunc }

func (w *watch) ResolveNow(resolver.ResolveNowOptions) {}

func (w *watch) Close() { w.cancel() }
